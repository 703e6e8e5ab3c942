//! The registered objects: ids and sizes.

use alloc::vec::Vec;

use crate::limits::{OBJECT_OCTETS_MAX, OBJECTS_MAX};

/// The id of an object in the exchange: the first eight octets of the SHA-256 of its name's TLV, as
/// a number in network order.
pub type ObjectId = u64;

/// A registered object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its id.
    pub id: ObjectId,
    /// Its size, octets.
    pub octets: u64,
}

/// The reason for which a catalogue is refused. All are faults of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectsError {
    /// There are more than [`OBJECTS_MAX`].
    TooMany,
    /// Two objects have the same id; contains their indices.
    SameId(usize, usize),
    /// The object has a size of 0, or of more than [`OBJECT_OCTETS_MAX`].
    BadSize(usize),
}

impl core::fmt::Display for ObjectsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ObjectsError::TooMany => write!(f, "more than {OBJECTS_MAX} objects"),
            ObjectsError::SameId(a, b) => write!(f, "objects {a} and {b} have one id"),
            ObjectsError::BadSize(k) => {
                write!(f, "object {k} has a size of 0 or more than {OBJECT_OCTETS_MAX} octets")
            }
        }
    }
}

impl core::error::Error for ObjectsError {}

/// Objects by index, and their indices by id.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    list: Vec<Object>,
    by_id: Vec<(ObjectId, u32)>,
}

impl Objects {
    /// Takes the objects of a catalogue, in its order.
    ///
    /// # Errors
    /// [`ObjectsError`], always the caller's fault.
    pub fn new(list: Vec<Object>) -> Result<Self, ObjectsError> {
        if list.len() > OBJECTS_MAX {
            return Err(ObjectsError::TooMany);
        }
        if let Some(k) = list.iter().position(|o| !(1..=OBJECT_OCTETS_MAX).contains(&o.octets)) {
            return Err(ObjectsError::BadSize(k));
        }
        let mut by_id: Vec<(ObjectId, u32)> = list.iter().map(|o| o.id).zip(0..).collect();
        by_id.sort_unstable();
        match by_id.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(ObjectsError::SameId(pair[0].1 as usize, pair[1].1 as usize)),
            None => Ok(Objects { list, by_id }),
        }
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All, by index.
    pub fn as_slice(&self) -> &[Object] {
        &self.list
    }

    /// The index of the object with this id.
    pub fn index_of(&self, id: ObjectId) -> Option<usize> {
        let index = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[index].1 as usize)
    }

    /// Ids with their indices, by rising id.
    pub fn by_id(&self) -> &[(ObjectId, u32)] {
        &self.by_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vip_catalogue_has_an_object_limit() {
        let objects = |n: u64| (0..n).map(|id| Object { id, octets: 1 }).collect::<Vec<_>>();
        assert_eq!(Objects::new(objects(OBJECTS_MAX as u64)).unwrap().len(), OBJECTS_MAX);
        assert_eq!(Objects::new(objects(OBJECTS_MAX as u64 + 1)).unwrap_err(), ObjectsError::TooMany);
    }

    #[test]
    fn invalid_sizes_and_duplicate_ids_are_refused() {
        let with = |sizes: &[(u64, u64)]| {
            Objects::new(sizes.iter().map(|&(id, octets)| Object { id, octets }).collect())
        };
        assert_eq!(with(&[(1, 1), (2, 0)]).unwrap_err(), ObjectsError::BadSize(1));
        assert_eq!(with(&[(1, OBJECT_OCTETS_MAX)]).unwrap().len(), 1);
        assert_eq!(with(&[(1, OBJECT_OCTETS_MAX + 1)]).unwrap_err(), ObjectsError::BadSize(0));
        assert_eq!(with(&[(7, 1), (8, 1), (7, 2)]).unwrap_err(), ObjectsError::SameId(0, 2));
    }

    #[test]
    fn an_object_is_found_by_its_id() {
        let ids = [9, 2, u64::MAX, 0];
        let objects = ids.iter().map(|&id| Object { id, octets: 5 }).collect();
        let objects = Objects::new(objects).unwrap();
        for (k, id) in ids.iter().enumerate() {
            assert_eq!(objects.index_of(*id), Some(k));
        }
        assert_eq!(objects.index_of(3), None);
    }
}
