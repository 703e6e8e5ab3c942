module namely/interop/memif

go 1.24

require github.com/usnistgov/ndn-dpdk v0.0.0-20250328141702-0be2411d0833

require (
	github.com/jfoster/binary-utilities v0.2.1 // indirect
	github.com/pascaldekloe/name v1.0.1 // indirect
	github.com/segmentio/fasthash v1.0.3 // indirect
	github.com/tul/emission v0.0.0-20180606124623-7d2aae804ca2 // indirect
	github.com/zyedidia/generic v1.2.1 // indirect
	go.fd.io/govpp/extras v0.1.0 // indirect
	go4.org v0.0.0-20230225012048-214862532bf5 // indirect
	golang.org/x/exp v0.0.0-20250305212735-054e65f0b394 // indirect
	golang.org/x/sys v0.31.0 // indirect
)
