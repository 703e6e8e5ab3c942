"""The older application interface of python-ndn, on which most of its applications are still built."""
from hashlib import sha256

from ndn.app import NDNApp
from ndn.app_support.segment_fetcher import segment_fetcher
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest

from session import emit, face_for, until_stdin_closes


def application(router):
    return NDNApp(face=face_for(router), keychain=KeychainDigest())


def produce(router, prefix, payload, segment_octets):
    """Serves an object without metadata: segments right under its name."""
    app = application(router)
    chunks = [payload[at:at + segment_octets] for at in range(0, len(payload), segment_octets)]
    name = Name.from_str(prefix)

    @app.route(name)
    def answer(interest_name, _parameters, _application_parameters):
        last = interest_name[-1]
        number = Component.to_number(last) if Component.get_type(last) == Component.TYPE_SEGMENT else 0
        app.put_data(name + [Component.from_segment(number)], chunks[number], freshness_period=10_000,
                     final_block_id=Component.from_segment(len(chunks) - 1))

    async def after_start():
        emit('ready', name=prefix)
        await until_stdin_closes()
        app.shutdown()

    app.run_forever(after_start=after_start())
    return 0


def fetch(router, name):
    """Fetches segments one by one with the library's own fetcher."""
    app = application(router)
    status = 1

    async def after_start():
        nonlocal status
        try:
            chunks = [bytes(chunk) async for chunk in segment_fetcher(app, name, must_be_fresh=False)]
            whole = b''.join(chunks)
            emit('fetched', octets=len(whole), segments=len(chunks), sha256=sha256(whole).hexdigest())
            status = 0
        except Exception as error:  # any failure is the test's result, not this program's
            emit('error', kind=type(error).__name__, message=str(error))
        finally:
            app.shutdown()

    app.run_forever(after_start=after_start())
    return status
