//! A timer that may be moved often without an event for each move.

/// One timer: when it should fire, and the event that is under way for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    wanted_ns: u64,
    armed_ns: u64,
}

impl Alarm {
    pub(crate) const OFF: Alarm = Alarm { wanted_ns: u64::MAX, armed_ns: u64::MAX };

    /// Moves the timer. Returns the time of an event that must be added for it, if one must.
    pub(crate) fn set(&mut self, at_ns: u64) -> Option<u64> {
        self.wanted_ns = at_ns;
        if at_ns >= self.armed_ns {
            return None;
        }
        self.armed_ns = at_ns;
        Some(at_ns)
    }

    /// An event of this timer came. `Ok` if the timer is due; otherwise the time of an event
    /// to add, if any.
    pub(crate) fn fired(&mut self, now_ns: u64) -> Result<(), Option<u64>> {
        if now_ns < self.armed_ns {
            // An event that an earlier one has replaced.
            return Err(None);
        }
        self.armed_ns = u64::MAX;
        if self.wanted_ns <= now_ns {
            self.wanted_ns = u64::MAX;
            return Ok(());
        }
        let wanted_ns = self.wanted_ns;
        Err(if wanted_ns == u64::MAX { None } else { self.set(wanted_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_moves_back_and_forth_fires_once_when_it_is_due() {
        let mut alarm = Alarm::OFF;
        assert_eq!(alarm.set(10), Some(10));
        assert_eq!(alarm.set(20), None, "the event under way will move on");
        assert_eq!(alarm.set(5), Some(5));
        assert_eq!(alarm.set(8), None);
        assert_eq!(alarm.fired(5), Err(Some(8)));
        assert_eq!(alarm.fired(8), Ok(()));
        assert_eq!(alarm.fired(10), Err(None));
    }
}
