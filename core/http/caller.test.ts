import t from 'tap'
import { forwardedAddress, isLoopback, isUnknownAddress, unknownAddress } from './caller.ts'

t.test('an entry of X-Forwarded-For is read with port, brackets and quotes', async (t) => {
  for (const [entry, address] of [
    ['192.0.2.1', '192.0.2.1'],
    [' 192.0.2.1\t', '192.0.2.1'],
    ['192.0.2.1:4711', '192.0.2.1'],
    ['192.0.2.1:', '192.0.2.1'],
    ['"192.0.2.1:4711"', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
    ['"2001:db8::1"', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    ['"[2001:db8::1]:_port"', '2001:db8::1'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
    ['[::ffff:192.0.2.1]:80', '::ffff:192.0.2.1'],
  ] as const)
    t.equal(forwardedAddress(entry), address, entry)
})

t.test('an entry that is no address is none', async (t) => {
  for (const entry of [
    ...['', ' ', '"', '""', 'unknown', '_hidden', 'host.example', 'for=192.0.2.1', '1', '0x7f.1', '127.1'],
    ...[
      '[192.0.2.1]',
      '[2001:db8::1',
      '2001:db8::1]:80',
      '192.0.2.1:port',
      '192.0.2.1:4711:2',
      '192.0.2.256',
    ],
    ...['fe80::1%eth0', '::1%eth-0', '[fe80::1%25eth0]:80', '::1%:', '"::ffff:192.0.2.1%a.b"'],
    ...['010.0.0.1', '[2001:db8::1]4711', '"192.0.2.1', "'192.0.2.1'", '192.0.2.1 192.0.2.2'],
  ])
    t.equal(forwardedAddress(entry), undefined, entry)
})

t.test('no two unknown callers have the same address', async (t) => {
  const [one, other] = [unknownAddress(), unknownAddress()]
  t.not(one, other)
  t.ok(isUnknownAddress(one))
  t.notOk(isUnknownAddress('192.0.2.1'))
})

t.test('this machine, by every name that a URL, a socket or a configuration gives it', async (t) => {
  for (const host of ['localhost', '127.0.0.1', '127.255.255.254', '::1', '[::1]', '::ffff:127.0.0.1'])
    t.ok(isLoopback(host), host)
})

t.test('what only looks like this machine is not', async (t) => {
  for (const host of [
    '',
    '0.0.0.0',
    '::',
    '128.0.0.1',
    '127.0.0.1.example.com',
    '127.0.0',
    '127.1.1.999',
    '127.0.0.01',
    'localhost.example.com',
    'shop.localhost',
    'localhost.',
    'LOCALHOST.example',
    '[localhost]',
    '[::ffff:7f00:2]x',
    '::ffff:128.0.0.1',
    '::ffff:::ffff:127.0.0.1',
  ])
    t.notOk(isLoopback(host), host)
})
