import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import t from 'tap'
import { createAddressPolicy } from './addressPolicy.ts'

/** IANA IPv4 Special-Purpose Address Registry (RFC 6890), and multicast. */
const specialV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '255.255.255.255/32',
]

/** IANA IPv6 Special-Purpose Address Registry, multicast, and everything outside 2000::/3. */
const specialV6 = [
  '::/128',
  '::1/128',
  '::/96',
  '::ffff:0:0/96',
  '::ffff:0:0:0/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/32',
  '2001:2::/48',
  '2001:10::/28',
  '2001:20::/28',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '4000::/3',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
]

/** AWS, Google, Azure and others; AWS's credentials of containers; Azure's wire server; Alibaba; Oracle. */
const metadataV4 = ['169.254.169.254', '169.254.170.2', '168.63.129.16', '100.100.100.200', '192.0.0.192']

/** Any address of a range: the range's bits, then random ones. */
function within(cidr: string): fc.Arbitrary<string> {
  const [base, prefix] = ipaddr.parseCIDR(cidr)
  const bytes = base.toByteArray()
  return fc.uint8Array({ minLength: bytes.length, maxLength: bytes.length }).map((noise) => {
    const mixed = bytes.map((byte, i) => {
      const kept = Math.min(8, Math.max(0, prefix - 8 * i))
      const mask = (0xff00 >> kept) & 0xff
      return (byte & mask) | (noise[i]! & ~mask & 0xff)
    })
    return ipaddr.fromByteArray(mixed).toString()
  })
}

const publicOnly = createAddressPolicy()

t.test('no address of a special range is public', async (t) => {
  for (const cidr of [...specialV4, ...specialV6]) {
    fc.assert(fc.property(within(cidr), (address) => !publicOnly(address)))
    t.notOk(publicOnly(ipaddr.parseCIDR(cidr)[0].toString()), `${cidr}, first`)
  }
})

t.test('an IPv4 address that is refused is refused inside every IPv6 form that carries it', async (t) => {
  const refused = fc.oneof(fc.constantFrom(...metadataV4), ...specialV4.map(within))
  let forms = 0
  fc.assert(
    fc.property(refused, (address) => {
      const [a, b, c, d] = address.split('.').map(Number) as [number, number, number, number]
      const high = ((a << 8) | b).toString(16)
      const low = ((c << 8) | d).toString(16)
      const carriers = [
        `::ffff:${address}`,
        `::ffff:${high}:${low}`,
        `::${address}`,
        `::${high}:${low}`,
        `64:ff9b::${high}:${low}`,
        `64:ff9b:1::${high}:${low}`,
        `2002:${high}:${low}::1`,
        `2001:0:${high}:${low}::1`,
        `::ffff:0:${high}:${low}`,
      ]
      forms += carriers.length
      return carriers.every((carrier) => !publicOnly(carrier))
    }),
  )
  t.ok(forms > 0)
})

t.test(
  'what a provider of machines answers only to its machines is not public, unless the operator lists it',
  async (t) => {
    for (const address of [...metadataV4, 'fd00:ec2::254', 'fe80::a9fe:a9fe'])
      t.notOk(publicOnly(address), address)
    t.ok(publicOnly('168.63.129.15') && publicOnly('168.63.129.17'), 'nothing beside it')
    t.ok(createAddressPolicy(['168.63.129.16/32'])('168.63.129.16'))
  },
)

t.test('well-known public addresses pass', async (t) => {
  for (const address of [
    '1.1.1.1',
    '8.8.8.8',
    '172.15.0.1',
    '172.32.0.1',
    '100.128.0.1',
    '223.255.255.254',
  ]) {
    t.ok(publicOnly(address), address)
  }
  for (const address of ['2606:4700:4700::1111', '2a00:1450:4001::1', '64:ff9b::8.8.8.8', '2400:cb00::1']) {
    t.ok(publicOnly(address), address)
  }
})

t.test('anything but the canonical form of an address is refused', async (t) => {
  for (const text of [
    '',
    '127.1',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '2130706433',
    '8.8.8',
    '08.8.8.8',
    '8.8.8.8.',
  ]) {
    t.notOk(publicOnly(text), text)
  }
  for (const text of [
    '[2606:4700::1]',
    '2606:4700::1%eth0',
    'fe80::1%1',
    'example.com',
    '8.8.8.8/32',
    ' 8.8.8.8',
  ]) {
    t.notOk(publicOnly(text), text)
  }
})

t.test('the operator’s ranges are let through, and nothing beside them', async (t) => {
  const policy = createAddressPolicy(['10.1.0.0/16', 'fd00:1::/32', '127.0.0.1/32'])
  for (const cidr of ['10.1.0.0/16', 'fd00:1::/32']) fc.assert(fc.property(within(cidr), policy))
  for (const cidr of ['10.0.0.0/16', '10.2.0.0/15', 'fd00:2::/32', '192.168.0.0/16']) {
    fc.assert(fc.property(within(cidr), (address) => !policy(address)))
  }
  t.ok(policy('127.0.0.1'))
  t.notOk(policy('127.0.0.2'))
  t.notOk(policy('::ffff:10.1.0.1'), 'an IPv4 range does not open its IPv6 spelling')
  t.ok(policy('8.8.8.8'), 'public ones still pass')
})

t.test('a range that can not be read stops the start and is named', async (t) => {
  for (const text of ['10.0.0.1', '10.0.0.0/33', 'intranet', '', 'fd00::/129', '10.0.0.0/8 ']) {
    t.throws(() => createAddressPolicy([text]), { message: `"${text}"` }, text)
  }
})
