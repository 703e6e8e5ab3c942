"""Segmented objects with RDR metadata: producing and fetching them."""
import asyncio
import time
from hashlib import sha256

from ndn.appv2 import pass_all
from ndn.encoding import Component, MetaInfo, Name, make_data
from ndn.types import InterestTimeout

from session import emit, until_stdin_closes

METADATA = Component.from_str('32=metadata')
WINDOW = 8
TRIES = 4
LIFETIME_MS = 2000


def packets_of(prefix, payload, segment_octets, signer):
    """`{name: Data}` of one version of an object: its segments and its metadata packet."""
    version = Component.from_version(int(time.time() * 1_000_000))
    versioned = prefix + [version]
    chunks = [payload[at:at + segment_octets] for at in range(0, len(payload), segment_octets)] or [b'']
    last = Component.from_segment(len(chunks) - 1)
    packets = {}
    for number, chunk in enumerate(chunks):
        name = versioned + [Component.from_segment(number)]
        packets[Name.to_bytes(name)] = make_data(
            name, MetaInfo(freshness_period=10_000, final_block_id=last), chunk, signer)
    first = Component.from_segment(0)
    metadata = prefix + [METADATA, version, first]
    packets[Name.to_bytes(metadata)] = make_data(
        metadata, MetaInfo(freshness_period=1000, final_block_id=first), Name.to_bytes(versioned), signer)
    return versioned, packets


async def produce(app, prefix, payload, segment_octets, identity):
    """Registers `prefix` and serves the object and the identity's certificate until standard input closes."""
    prefix = Name.from_str(prefix)
    prefixes = [prefix]
    versioned, packets = packets_of(prefix, payload, segment_octets, identity.signer)
    if identity.certificate is not None:
        packets[Name.to_bytes(identity.certificate_name)] = identity.certificate
        if not Name.is_prefix(prefix, identity.certificate_name):
            prefixes.append(identity.certificate_name[:-2])
    decoded = {wire_name: Name.from_bytes(wire_name) for wire_name in packets}

    def answer(name, _parameters, reply, context):
        packet = packets.get(Name.to_bytes(name))
        if packet is None and context['int_param'].can_be_prefix:
            matches = (key for key, full in decoded.items() if Name.is_prefix(name, full))
            packet = packets.get(next(matches, None))
        if packet is not None:
            reply(packet)

    for registered in prefixes:
        app.attach_handler(registered, answer)
        if not await app.register(registered):
            raise RuntimeError(f'the router refused the registration of {Name.to_str(registered)}')
    emit('ready', name=Name.to_str(versioned), packets=len(packets))
    await until_stdin_closes()
    emit('unregistered', accepted=all([await app.unregister(registered) for registered in prefixes]))


async def express(app, name, checker, **options):
    """One Interest, repeated when it times out."""
    for attempt in range(TRIES):
        try:
            return await app.express(name, checker, lifetime=LIFETIME_MS, **options)
        except InterestTimeout:
            if attempt == TRIES - 1:
                raise


async def certificate(app, name):
    """The octets of a certificate that a key locator names (of a certificate, or of its key)."""
    _, _, context = await express(app, name, pass_all, can_be_prefix=True, must_be_fresh=False)
    return bytes(context['raw_packet'])


async def discover(app, name, checker):
    """The versioned name that the metadata of `name` points to."""
    metadata, content, _ = await express(
        app, name + [METADATA], checker, can_be_prefix=True, must_be_fresh=True)
    return metadata, Name.from_bytes(content)


async def fetch(app, name, checker, out=None):
    """Discovers the newest version through its metadata, fetches all segments and reports the result."""
    metadata, versioned = await discover(app, Name.from_str(name), checker)

    async def segment(number):
        _, content, context = await express(app, versioned + [Component.from_segment(number)], checker)
        return bytes(content or b''), context['meta_info'].final_block_id

    first, final = await segment(0)
    last = Component.to_number(final)
    payload = [first]
    for start in range(1, last + 1, WINDOW):
        numbers = range(start, min(start + WINDOW, last + 1))
        payload.extend(content for content, _ in await asyncio.gather(*map(segment, numbers)))
    whole = b''.join(payload)
    if out:
        with open(out, 'wb') as file:
            file.write(whole)
    emit('fetched', name=Name.to_str(versioned), metadata=Name.to_str(metadata), octets=len(whole),
         segments=len(payload), sha256=sha256(whole).hexdigest(), **checker.report())
