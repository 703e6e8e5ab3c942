//! Tests of namely against other NDN implementations; everything is under `tests/`.
