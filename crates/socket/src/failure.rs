//! The error with which a program's `main` ends.

use std::fmt;
use std::io;

use namely_wire::DecodeError;
use namely_wire::text::Plain;

use crate::consumer::{RecvError, SendError};
use crate::errno;
use crate::error::{BindError, CallError, FetchError, PublishError};
use crate::namespace::NameError;
use crate::options::OptionError;
use crate::producer::PushError;

/// The failure of any call: number, message and next step.
///
/// Every error of this crate becomes one by `?`. `Debug` prints message and next step, because Rust
/// prints the error of `main` so:
///
/// ```no_run
/// use namely_socket::{Consumer, ConsumerOptions, Failure};
///
/// fn main() -> Result<(), Failure> {
///     let consumer = Consumer::bind("/lab".parse()?, ConsumerOptions::default())?;
///     println!("{} octets", consumer.fetch(&"/lab/run7".parse()?)?.len());
///     Ok(())
/// }
/// ```
///
/// Both formats escape control characters, because messages contain names and texts of others.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    errno: i32,
    message: String,
    hint: Option<&'static str>,
}

impl Failure {
    /// The matching `errno` of a system call.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Advice for the caller, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }
}

impl fmt::Display for Failure {
    /// The message and the hint in one line, as C and Python have them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Plain::new(&self.message).as_str())?;
        self.hint.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl fmt::Debug for Failure {
    /// The message, and the hint in a line of its own, as `namely` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Plain::new(&self.message).as_str())?;
        self.hint.map_or(Ok(()), |hint| write!(f, "\n  hint: {hint}"))
    }
}

impl std::error::Error for Failure {}

macro_rules! failures {
    ($($error:ty: $hint:expr),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let hint: fn(&$error) -> Option<&'static str> = $hint;
                Failure { errno: error.errno(), message: error.to_string(), hint: hint(&error) }
            }
        })*
    };
}

failures! {
    BindError: BindError::hint,
    CallError: CallError::hint,
    FetchError: FetchError::hint,
    PublishError: PublishError::hint,
    PushError: PushError::hint,
    RecvError: RecvError::hint,
    SendError: SendError::hint,
    NameError: |_| None,
    OptionError: |_| None,
}

impl From<DecodeError> for Failure {
    /// A text that is no name.
    fn from(error: DecodeError) -> Self {
        let hint = Some("write names as /lab/run7");
        Failure { errno: errno::INVAL, message: format!("this is no name: {error}"), hint }
    }
}

impl From<io::Error> for Failure {
    /// An error of a stream, or of the system.
    fn from(error: io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(errno::IO);
        let message = error.to_string();
        match error.downcast::<FetchError>() {
            Ok(fetch) => fetch.into(),
            Err(_) => Failure { errno, message, hint: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_prints_message_and_next_step() {
        let failure = Failure::from(CallError::Forked);
        let message = CallError::Forked.to_string();
        assert_eq!(failure.to_string(), format!("{message}; bind another one in the child"));
        assert_eq!(format!("{failure:?}"), format!("{message}\n  hint: bind another one in the child"));
        assert_eq!((failure.errno(), failure.hint()), (errno::BADFD, Some("bind another one in the child")));
        let plain = Failure::from(CallError::Closed);
        assert_eq!(
            (format!("{plain:?}"), plain.to_string()),
            (plain.to_string(), "the socket is closed".into())
        );
    }

    #[test]
    fn a_streams_error_keeps_its_hint() {
        let lost = || FetchError::Call(CallError::RouterLost);
        assert_eq!(Failure::from(io::Error::other(lost())), Failure::from(lost()));
        let full = Failure::from(io::Error::from_raw_os_error(errno::NOSPC));
        assert_eq!((full.errno(), full.hint()), (errno::NOSPC, None));
    }

    #[test]
    fn a_failure_escapes_foreign_text() {
        let error = OptionError::Unknown { option: "x\u{1b}[2J\n".into(), known: Vec::new() };
        for text in [Failure::from(error.clone()).to_string(), format!("{:?}", Failure::from(error))] {
            assert!(text.contains("x\\u{1b}[2J\\n") && !text.contains(['\u{1b}', '\n']), "{text}");
        }
    }

    #[test]
    fn a_text_without_slash_fails_with_advice() {
        let error = "lab".parse::<namely_wire::Name>().unwrap_err();
        assert!(format!("{:?}", Failure::from(error)).ends_with("\n  hint: write names as /lab/run7"));
    }
}
