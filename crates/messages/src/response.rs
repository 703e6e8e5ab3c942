//! ControlResponse: the Content of the Data that answers a command.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use super::parameters::ControlParameters;
use super::values::status_code;
use namely_wire::DecodeError;
use namely_wire::tlv::{Reader, Writer};

/// ControlResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlResponse {
    /// StatusCode: see [`status_code`].
    pub code: u64,
    /// StatusText, for people.
    pub text: String,
    /// The elements that follow StatusText: usually one ControlParameters, see
    /// [`ControlResponse::parameters`].
    pub body: Vec<u8>,
}

impl ControlResponse {
    /// A response without a body.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        ControlResponse { code, text: text.into(), body: Vec::new() }
    }

    /// A response of 200 with the parameters that the router applied.
    pub fn ok(parameters: &ControlParameters) -> Self {
        Self::new(status_code::OK, "OK").with_parameters(parameters)
    }

    /// The text of a response to `rib/register` if other applications of the router's machine have
    /// registered the same prefix. Namely's own.
    pub const SHARED_TEXT: &str = "OK, and other applications have registered the prefix, too";

    /// Returns true if other applications have registered the prefix, too.
    pub fn is_shared(&self) -> bool {
        self.is_ok() && self.text == Self::SHARED_TEXT
    }

    /// The response with `parameters` as its body.
    pub fn with_parameters(mut self, parameters: &ControlParameters) -> Self {
        self.body = parameters.to_vec();
        self
    }

    /// Returns true if the command was carried out. Errors begin at 400; NLSR reports success by
    /// 205.
    pub fn is_ok(&self) -> bool {
        (status_code::OK..status_code::BAD_PARAMETERS).contains(&self.code)
    }

    /// The ControlParameters in the body, if it starts with them.
    ///
    /// # Errors
    /// [`DecodeError`]: the body is no sequence of TLVs, or the ControlParameters are malformed.
    pub fn parameters(&self) -> Result<Option<ControlParameters>, DecodeError> {
        let mut reader = Reader::new(&self.body);
        match reader.next_tlv()? {
            Some(tlv) if tlv.typ == CONTROL_PARAMETERS => {
                ControlParameters::decode_value(tlv.value).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl Block for ControlResponse {
    const TYPE: u32 = CONTROL_RESPONSE;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let code = reader.require(STATUS_CODE)?.nni()?;
        let text = reader.require(STATUS_TEXT)?.value;
        let text = core::str::from_utf8(text).map_err(|_| DecodeError::BadText)?;
        let body = reader.rest();
        while reader.next_tlv()?.is_some() {}
        Ok(ControlResponse { code, text: text.into(), body: body.to_vec() })
    }

    fn encode_value(&self, w: &mut Writer) {
        w.nni(STATUS_CODE, self.code).tlv(STATUS_TEXT, self.text.as_bytes()).raw(&self.body);
    }
}
