import fc from 'fast-check'
import t from 'tap'
import { isTollgateError } from '../../core/errors/error.ts'
import { createEgress } from './egress.ts'

const egress = createEgress()
t.teardown(() => egress.close())

/** The rule that refused a URL, or `allowed`. */
function verdict(url: string): string {
  try {
    egress.checkUrl(url)
    return 'allowed'
  } catch (error) {
    if (!isTollgateError(error) || error.code !== 'VALIDATION_ERROR') throw error
    return error.details![0]!.code
  }
}

const hex = (n: number) => `0x${n.toString(16)}`
const octal = (n: number) => `0${n.toString(8)}`
const percent = (text: string) => [...text].map((char) => `%${char.charCodeAt(0).toString(16)}`).join('')
const wide = (text: string) => text.replace(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit)))

/** Every spelling of an IPv4 host that the URL standard reads as one. */
function spellings(a: number, b: number, c: number, d: number): string[] {
  const whole = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0
  const dotted = [a, b, c, d]
  const forms = [
    dotted.join('.'),
    `${dotted.join('.')}.`,
    dotted.map(hex).join('.'),
    dotted.map(octal).join('.'),
    `${a}.${hex(b)}.${octal(c)}.${d}`,
    `${a}.${b}.${(c << 8) | d}`,
    `${a}.${(b << 16) | (c << 8) | d}`,
    `${whole}`,
    `${whole}.`,
    hex(whole),
    octal(whole),
    `${hex(a)}.${octal((b << 16) | (c << 8) | d)}`,
  ]
  const v6 = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
  return [
    ...forms,
    ...forms.map(percent),
    ...forms.map(wide),
    dotted.join('。'),
    `[::ffff:${dotted.join('.')}]`,
    `[::ffff:${v6}]`,
    `[0:0:0:0:0:FFFF:${v6.toUpperCase()}]`,
    `[::${v6}]`,
    `[64:ff9b::${v6}]`,
  ]
}

const octet = fc.integer({ min: 0, max: 255 })
const privateV4: fc.Arbitrary<[number, number, number, number]> = fc.oneof(
  fc.tuple(fc.constant(127), octet, octet, octet),
  fc.tuple(fc.constant(10), octet, octet, octet),
  fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), octet, octet),
  fc.tuple(fc.constant(192), fc.constant(168), octet, octet),
  fc.tuple(fc.constant(169), fc.constant(254), octet, octet),
  fc.tuple(fc.constant(100), fc.integer({ min: 64, max: 127 }), octet, octet),
  fc.tuple(fc.constant(0), octet, octet, octet),
  fc.tuple(fc.integer({ min: 224, max: 255 }), octet, octet, octet),
)

t.test('a private address is refused in every spelling', async (t) => {
  let tried = 0
  fc.assert(
    fc.property(privateV4, fc.constantFrom('', ':8080', ':80', ':443'), (octets, port) => {
      for (const host of spellings(...octets)) {
        tried++
        const result = verdict(`http://${host}${port}/path?query`)
        if (result !== 'private_address') throw new Error(`${host}: ${result}`)
      }
    }),
  )
  t.ok(tried > 1_000)
})

t.test(
  'a public address is allowed in the plain spellings, so the test above refuses for the address',
  async (t) => {
    for (const host of spellings(93, 184, 215, 14).filter((host) => !/^\[(::|0:)/.test(host))) {
      t.equal(verdict(`http://${host}/`), 'allowed', host)
    }
  },
)

t.test('names that mean this machine are refused without asking anybody', async (t) => {
  for (const host of ['localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'ｌocalhost', '%6cocalhost']) {
    t.equal(verdict(`http://${host}/`), 'private_address', host)
  }
  t.equal(verdict('http://localhost.example/'), 'allowed')
  t.equal(verdict('http://notlocalhost/'), 'allowed')
})

t.test('only http and https URLs without credentials are allowed', async (t) => {
  for (const scheme of ['ftp', 'file', 'gopher', 'data', 'javascript', 'ws', 'wss', 'unix', 'blob']) {
    t.equal(verdict(`${scheme}://example.com/`), 'scheme', scheme)
  }
  for (const user of ['user', 'user:pass', ':pass', 'a%40b:c', '@']) {
    t.equal(verdict(`http://${user}@example.com/`), 'credentials', user)
  }
  t.equal(verdict('http://8.8.8.8@127.0.0.1/'), 'credentials')
  t.equal(verdict('https://example.com/a?b'), 'allowed')
})

t.test('what is no URL, or only one after repair, is refused', async (t) => {
  for (const url of [
    '',
    'example.com',
    '//example.com',
    'http://',
    'http:///',
    'http:///x',
    'http:x',
    'http:/x.example',
    'https://?a',
    'https://#a',
    'http://[::1',
    'http://a b/',
  ]) {
    t.not(verdict(url), 'allowed', url)
  }
  for (const url of [
    'http://exa\tmple.com',
    'http://example.com\n',
    ' http://example.com',
    'http:\\\\example.com',
    'http://a\0b/',
  ]) {
    t.equal(verdict(url), 'characters', JSON.stringify(url))
  }
  for (const url of [
    'http://[fe80::1%25eth0]/',
    'http://[::1%lo]/',
    'http://1.2.3.4.5/',
    'http://256.256.256.256/',
  ]) {
    t.equal(verdict(url), 'format', url)
  }
  t.equal(verdict('http://example.com:0/'), 'port')
  t.equal(verdict('http://example.com:65536/'), 'format')
  t.equal(verdict('http://a..example.com/'), 'host')
  t.equal(verdict('http://127.0.0.1../'), 'host')
  t.equal(verdict('http://localhost../'), 'host')
  t.equal(verdict('http://.example.com/'), 'host')
  t.equal(verdict(`http://${'a.'.repeat(130)}com/`), 'host')
  t.equal(verdict(`http://example.com/${'a'.repeat(9_000)}`), 'too_long')
})

t.test('any text at all is a URL to use or a validation error, never another error', async (t) => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.webUrl(),
    fc.string().map((host) => `http://${host}/`),
    fc.ipV4Extended().map((host) => `http://${host}`),
    fc.ipV6().map((host) => `https://[${host}]`),
  )
  fc.assert(
    fc.property(text, (url) => verdict(url).length > 0),
    { numRuns: 2_000 },
  )
  t.equal(verdict(undefined as unknown as string), 'required')
})

t.test('the message names no rule of the operator’s network', async (t) => {
  const own = createEgress({ allowPrivateCidrs: ['10.77.0.0/16'] })
  t.teardown(() => own.close())
  t.equal(own.checkUrl('http://10.77.1.2:3000/x').href, 'http://10.77.1.2:3000/x')
  t.throws(() => own.checkUrl('http://10.78.0.1/'), { message: /^((?!10\.7).)*$/ })
})
