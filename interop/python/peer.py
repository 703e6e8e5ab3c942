"""python-ndn as the other side of namely's interoperability tests.

Each subcommand does one thing that an application built on python-ndn does, and writes JSON lines. The
programs under interop/tests start it; it is also handy by hand: `peer.py fetch --router unix:///… /name`.
"""
import argparse
import os
import sys

import classic
import keys
import management
import objects
from ndn.encoding import MetaInfo, Name, make_data, parse_data
from ndn.security import DigestSha256Signer
from session import emit, read_packet, run, write_packet


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest='command', required=True)

    def add(name, *options, router=True):
        command = commands.add_parser(name)
        if router:
            command.add_argument('--router', required=True, help='unix:///path, tcp://host:port or udp://host:port')
        for option in options:
            option(command)
        return command

    add('new-key', signing, lambda c: c.add_argument('--write-key', required=True), router=False)
    add('produce', signing, command_signing, lambda c: c.add_argument('--payload', required=True),
        lambda c: c.add_argument('--segment-octets', type=int, default=1000), name)
    add('classic-produce', lambda c: c.add_argument('--payload', required=True),
        lambda c: c.add_argument('--segment-octets', type=int, default=1000),
        lambda c: c.add_argument('--write-certificate', help='ignored: it signs with digests'), name)
    add('classic-fetch', name)
    add('fetch', checking, name, lambda c: c.add_argument('--out'))
    add('command', parameters, command_signing, lambda c: c.add_argument('--old-format', action='store_true'))
    add('dataset', lambda c: c.add_argument('which', choices=sorted(management.DATASETS)))
    add('no-route', name)
    add('sign', signing, name, router=False)
    add('check', checking, lambda c: c.add_argument('packet'), router=False)
    add('issue', signing, lambda c: c.add_argument('request'), lambda c: c.add_argument('--out', required=True),
        router=False)
    add('export-safe-bag', signing, passphrase, lambda c: c.add_argument('--out', required=True), router=False)
    add('import-safe-bag', passphrase, lambda c: c.add_argument('bag'), router=False)
    return parser.parse_args()


def name(command):
    command.add_argument('name')


def passphrase(command):
    command.add_argument('--passphrase', required=True)


def signing(command):
    command.add_argument('--sign', choices=keys.KINDS, default='digest')
    command.add_argument('--identity', default='/python')
    command.add_argument('--hmac-key', help='hex')
    command.add_argument('--load-key', help='a PKCS#8 file; without one, a key is made')
    command.add_argument('--load-certificate', help='the certificate of the loaded key')
    command.add_argument('--write-data', help='where the signed Data goes')
    command.add_argument('--write-certificate', help='where the certificate goes')


def command_signing(command):
    command.add_argument('--command-sign', choices=('rsa', 'ecdsa', 'ed25519'), help='the kind of the command key')
    command.add_argument('--command-key', help='a PKCS#8 file; without one, commands carry a digest')
    command.add_argument('--command-certificate')


def checking(command):
    command.add_argument('--certificate', action='append', default=[], help='a certificate to trust')
    command.add_argument('--hmac-key', help='hex')
    command.add_argument('--accept-unsigned', action='store_true')
    command.add_argument('--fetch-certificates', action='store_true', help='get missing certificates by name')


def parameters(command):
    command.add_argument('verb', help='module/verb')
    command.add_argument('--name')
    command.add_argument('--strategy')
    command.add_argument('--uri')
    for number in ('face-id', 'cost', 'origin', 'flags', 'expiration-period', 'capacity', 'count'):
        command.add_argument('--' + number, type=int)


def identity_of(args):
    hmac_key = bytes.fromhex(args.hmac_key) if args.hmac_key else None
    identity = keys.Identity(args.identity, args.sign, hmac_key, args.load_key, args.load_certificate)
    if args.write_certificate and identity.certificate is not None:
        write_packet(args.write_certificate, identity.certificate)
    return identity


def checker_of(args):
    hmac_key = bytes.fromhex(args.hmac_key) if args.hmac_key else None
    return keys.Checker(args.certificate, hmac_key, args.accept_unsigned)


def command_signer_of(args):
    if not args.command_key:
        return None
    return keys.CommandSigner(keys.Identity(
        None, args.command_sign, key_path=args.command_key, certificate_path=args.command_certificate).signer)


def new_key(args):
    identity = identity_of(args)
    with open(args.write_key, 'wb') as file:
        file.write(keys.pkcs8(identity.private_key))
    emit('made', name=Name.to_str(identity.certificate_name))
    return 0


def produce(args):
    with open(args.payload, 'rb') as file:
        payload = file.read()
    identity = identity_of(args)
    return run(args.router, lambda app: objects.produce(app, args.name, payload, args.segment_octets, identity),
               command_signer_of(args))


def classic_produce(args):
    with open(args.payload, 'rb') as file:
        return classic.produce(args.router, args.name, file.read(), args.segment_octets)


def fetch(args):
    checker = checker_of(args)

    async def work(app):
        if args.fetch_certificates:
            checker.fetch = lambda name: objects.certificate(app, name)
        await objects.fetch(app, args.name, checker, args.out)

    return run(args.router, work)


def command(args):
    known = ('name', 'strategy', 'uri', 'face_id', 'cost', 'origin', 'flags', 'expiration_period', 'capacity', 'count')
    given = {key: getattr(args, key) for key in known if getattr(args, key) is not None}
    for key in ('name', 'strategy'):
        if key in given:
            given[key] = Name.from_str(given[key])
    signer = command_signer_of(args) or DigestSha256Signer(for_interest=True)
    send = management.old_command if args.old_format else management.command
    return run(args.router, lambda app: send(app, args.verb, given, signer))


def sign(args):
    identity = identity_of(args)
    wire = make_data(Name.from_str(args.name), MetaInfo(freshness_period=10_000), b'signed by python-ndn', identity.signer)
    with open(args.write_data, 'wb') as file:
        file.write(wire)
    emit('signed', octets=len(wire))
    return 0


def check(args):
    checker = checker_of(args)
    wire = read_packet(args.packet)
    good = checker.check_packet(wire)
    packet_name, _, content, _ = parse_data(wire)
    emit('checked', good=good, name=Name.to_str(packet_name), octets=len(content or b''), **checker.report())
    return 0


def issue(args):
    wire = identity_of(args).issue(read_packet(args.request))
    write_packet(args.out, wire)
    emit('issued', name=Name.to_str(parse_data(wire)[0]))
    return 0


def export_safe_bag(args):
    identity = identity_of(args)
    write_packet(args.out, identity.safe_bag(args.passphrase))
    emit('exported', name=Name.to_str(identity.certificate_name))
    return 0


def import_safe_bag(args):
    certificate_name, private_key = keys.open_safe_bag(read_packet(args.bag), args.passphrase)
    emit('imported', name=Name.to_str(certificate_name), public_key=keys.spki(private_key).hex())
    return 0


def main():
    args = arguments()
    actions = {
        'classic-produce': classic_produce, 'classic-fetch': lambda a: classic.fetch(a.router, a.name),
        'new-key': new_key, 'produce': produce, 'fetch': fetch, 'command': command, 'sign': sign, 'check': check, 'issue': issue,
        'export-safe-bag': export_safe_bag, 'import-safe-bag': import_safe_bag,
        'dataset': lambda a: run(a.router, lambda app: management.dataset(app, a.which)),
        'no-route': lambda a: run(a.router, lambda app: management.no_route(app, a.name)),
    }
    try:
        status = actions[args.command](args)
    except (OSError, ValueError) as error:
        emit('error', kind=type(error).__name__, message=str(error))
        status = 1
    sys.stdout.flush()
    # Otherwise the thread that waits for standard input would keep the process running.
    os._exit(status)


if __name__ == '__main__':
    main()
