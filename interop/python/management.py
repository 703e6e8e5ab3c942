"""NFD management as python-ndn applications use it: commands, datasets, and the answer of a router without a route."""
from ndn.app_support import nfd_mgmt
from ndn.appv2 import pass_all
from ndn.encoding import Component, Name
from ndn.types import InterestNack, InterestTimeout

from objects import express
from session import emit, read_response

DATASETS = {
    'faces/list': (nfd_mgmt.FaceStatusMsg, 'face_status', lambda face: {'id': face.face_id, 'uri': face.uri}),
    'rib/list': (nfd_mgmt.RibStatus, 'entries', lambda entry: {
        'name': Name.to_str(entry.name), 'faces': [route.face_id for route in entry.routes]}),
    'fib/list': (nfd_mgmt.FibStatus, 'entries', lambda entry: {
        'name': Name.to_str(entry.name), 'faces': [hop.face_id for hop in entry.next_hop_records]}),
    'strategy-choice/list': (nfd_mgmt.StrategyChoiceMsg, 'strategy_choices', lambda choice: {
        'name': Name.to_str(choice.name), 'strategy': Name.to_str(choice.strategy.name)}),
}


async def command(app, verb, parameters, signer):
    """One signed command Interest (packet format 0.3)."""
    module, action = verb.split('/')
    name = nfd_mgmt.make_command_v2(module, action, app.face, **parameters)
    _, content, _ = await app.express(name, pass_all, app_param=b'', signer=signer, lifetime=2000)
    emit_response(content)


async def old_command(app, verb, parameters, _signer):
    """The same command in the form of packet format 0.2, whose signature is in name components."""
    module, action = verb.split('/')
    _, content, _ = await app.express(
        nfd_mgmt.make_command(module, action, app.face, **parameters), pass_all, lifetime=2000)
    emit_response(content)


def emit_response(content):
    response = read_response(content)
    emit('response', status=response.status_code, text=response.status_text)


async def dataset(app, which):
    """A status dataset, all segments of it."""
    scope = 'localhost' if app.face.isLocalFace() else 'localhop'
    prefix = Name.from_str(f'/{scope}/nfd/{which}')
    name, content, context = await express(app, prefix, pass_all, can_be_prefix=True, must_be_fresh=True)
    payload = [bytes(content)]
    last = Component.to_number(context['meta_info'].final_block_id)
    for number in range(1, last + 1):
        _, content, _ = await express(app, name[:-1] + [Component.from_segment(number)], pass_all)
        payload.append(bytes(content))
    model, field, describe = DATASETS[which]
    entries = getattr(model.parse(b''.join(payload)), field)
    emit('dataset', name=which, segments=last + 1, entries=[describe(entry) for entry in entries])


async def no_route(app, name):
    """Requests a name without a producer, and reports the router's answer."""
    try:
        await app.express(Name.from_str(name), pass_all, lifetime=3000)
        emit('answered')
    except InterestNack as nack:
        emit('nack', reason=nack.reason)
    except InterestTimeout:
        emit('timeout')
