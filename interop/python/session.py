"""One face to a router, and the JSON lines that the test harness reads.

The URI (unix, tcp, udp) selects one of the library's faces. For 127.* the library uses `/localhost/nfd`, over UDP too.
"""
import asyncio
import base64
import json
import sys
from urllib.parse import urlparse

from ndn.app_support.nfd_mgmt import make_command_v2
from ndn.appv2 import NDNApp, pass_all
from ndn.encoding import BytesField, TlvModel, UintField, parse_and_check_tl
from ndn.transport.prefix_registerer import PrefixRegisterer
from ndn.transport.stream_face import TcpFace, UnixFace
from ndn.transport.udp_face import UdpFace


CONTROL_RESPONSE = 0x65


class ControlResponse(TlvModel):
    """A response without decoding of its body. The library's model fails on a refusal, which has no body. It also fails
    on the order of fields in the response to faces/create."""

    status_code = UintField(0x66)
    status_text = BytesField(0x67, is_string=True)
    body = BytesField(0x68)


def read_response(content):
    """The response to a command."""
    return ControlResponse.parse(parse_and_check_tl(memoryview(content), CONTROL_RESPONSE))


def face_for(uri):
    """The library's face for a router URI."""
    parts = urlparse(uri)
    if parts.scheme == 'unix':
        return UnixFace(parts.path)
    kinds = {'tcp': TcpFace, 'udp': UdpFace}
    return kinds[parts.scheme[:3]](parts.hostname, parts.port or 6363)


def emit(event, **fields):
    """Writes one event for the harness."""
    print(json.dumps({'event': event, **fields}), flush=True)


async def until_stdin_closes():
    """Waits until standard input is closed. So a test that is killed leaves no producer behind."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.buffer.read)


class SigningRegisterer(PrefixRegisterer):
    """Registers prefixes by commands that a given key signs. The library's own class signs with a digest only."""

    def __init__(self, signer):
        super().__init__()
        self.signer = signer

    async def register(self, name):
        return await self._command('register', name)

    async def unregister(self, name):
        return await self._command('unregister', name)

    async def _command(self, verb, name):
        command = make_command_v2('rib', verb, self.app.face, name=name)
        _, content, _ = await self.app.express(command, pass_all, app_param=b'', signer=self.signer, lifetime=2000)
        response = read_response(content)
        if response.status_code != 200:
            emit('refused', status=response.status_code, text=response.status_text)
        return response.status_code == 200


def run(router, work, command_signer=None):
    """Connects, runs `work(app)`, and leaves. Returns the process's exit status."""
    registerer = SigningRegisterer(command_signer) if command_signer else None
    app = NDNApp(face=face_for(router), registerer=registerer)
    status = 1

    async def after_start():
        nonlocal status
        try:
            await work(app)
            status = 0
        except Exception as error:  # any failure is the test's result, not this program's
            emit('error', kind=type(error).__name__, message=str(error))
        finally:
            app.shutdown()

    app.run_forever(after_start=after_start())
    return status


def read_packet(path):
    """One TLV from a file: raw octets, base64 lines, or base64 between armour lines."""
    with open(path, 'rb') as file:
        octets = file.read()
    if octets[:1] in (b'\x06', b'\x80'):
        return octets
    lines = [line for line in octets.splitlines() if b'-----' not in line and b':' not in line]
    return base64.b64decode(b''.join(lines))


def write_packet(path, octets):
    """Writes one TLV to a file, in base64 lines of 64 characters, the format of ndnsec."""
    text = base64.b64encode(bytes(octets)).decode()
    with open(path, 'w') as file:
        for start in range(0, len(text), 64):
            file.write(text[start:start + 64] + '\n')
