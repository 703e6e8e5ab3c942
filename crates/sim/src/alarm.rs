//! A timer that can be moved often without an event for each move.

/// A timer: the time at which it should fire, and the time of its scheduled event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    wanted_ns: u64,
    armed_ns: u64,
}

impl Alarm {
    pub(crate) const OFF: Alarm = Alarm { wanted_ns: u64::MAX, armed_ns: u64::MAX };

    /// Moves the timer to `at_ns`. Returns the time of an event that the caller has to schedule, if
    /// any.
    pub(crate) fn set(&mut self, at_ns: u64) -> Option<u64> {
        self.wanted_ns = at_ns;
        if at_ns >= self.armed_ns {
            return None;
        }
        self.armed_ns = at_ns;
        Some(at_ns)
    }

    /// Handles an event of this timer. Returns `Ok` if the timer is due; otherwise the time of an
    /// event that the caller has to schedule, if any.
    pub(crate) fn fired(&mut self, now_ns: u64) -> Result<(), Option<u64>> {
        if now_ns < self.armed_ns {
            // An earlier event has replaced this one.
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
    fn a_moved_timer_fires_once_when_due() {
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
