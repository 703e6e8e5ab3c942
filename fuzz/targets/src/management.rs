//! Commands, responses and datasets.

use std::fmt::Debug;

use namely_messages::{
    Block, ChannelStatus, CommandParameters, ControlParameters, ControlResponse, CsDiskStatus, CsInfo,
    FaceEventNotification, FaceQueryFilter, FaceStatus, FibEntry, GeneralStatus, Request, RibEntry,
    StrategyChoice, blocks, encode_blocks,
};
use namely_wire::{InterestBuilder, InterestView, Name};

/// Every decoder of management. Each accepted value survives encoding and decoding.
pub(crate) fn management(octets: &[u8]) {
    whole::<ControlParameters>(octets);
    whole::<ControlResponse>(octets);
    whole::<FaceQueryFilter>(octets);
    whole::<FaceEventNotification>(octets);
    list::<FaceStatus>(octets);
    list::<ChannelStatus>(octets);
    list::<FibEntry>(octets);
    list::<RibEntry>(octets);
    list::<StrategyChoice>(octets);
    list::<CsInfo>(octets);
    list::<CsDiskStatus>(octets);
    if let Ok(status) = GeneralStatus::decode(octets) {
        assert_eq!(GeneralStatus::decode(&status.to_vec()), Ok(status));
    }
    if let Ok(response) = ControlResponse::decode(octets) {
        let _ = response.parameters();
    }
    if let Ok(interest) = InterestView::parse(octets) {
        request(&interest);
    }
}

fn whole<T: Block + Debug + PartialEq>(octets: &[u8]) {
    if let Ok(value) = T::decode(octets) {
        assert_eq!(T::decode(&value.to_vec()), Ok(value));
    }
}

fn list<T: Block + Debug + PartialEq>(octets: &[u8]) {
    let entries: Vec<T> = blocks(octets).map_while(Result::ok).collect();
    assert!(entries.len() <= octets.len());
    assert!(blocks::<T>(octets).skip_while(Result::is_ok).count() <= 1, "nothing follows an error");
    let again: Result<Vec<T>, _> = blocks(&encode_blocks(&entries)).collect();
    assert_eq!(again, Ok(entries));
}

fn request(interest: &InterestView<'_>) {
    match Request::parse(interest) {
        Ok(Request::Command(request)) => {
            if let CommandParameters::Control(parameters) = &request.parameters {
                let name = request.command.name(request.scope, parameters);
                assert_eq!(parsed_name(name), format!("{:?}", Request::Command(request)));
            }
        }
        Ok(Request::Dataset(request)) => {
            assert!(request.prefix_components <= interest.name.len());
        }
        Ok(Request::FaceEvents(_)) | Err(_) => {}
    }
}

fn parsed_name(name: Name) -> String {
    let wire = InterestBuilder::new(name).build();
    let request = InterestView::parse(&wire).map(|view| Request::parse(&view).map(|r| format!("{r:?}")));
    request.expect("what is built is valid").expect("the name of a command is a command")
}
