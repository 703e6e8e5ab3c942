//! The integration tests of this crate, as one program: linking is most of what a program costs.

mod first_signature;
mod ndnsec;
mod openssl;
