import fc from 'fast-check'
import t from 'tap'
import { scope, secret, start } from '../../test/helpers/vault/secretCalls.ts'
import { createMask } from './maskSecret.ts'

t.test('an answer that could hide the credential is not given out', async (t) => {
  const { call } = await start(t, (req, res) => {
    if (req.url === '/open/long') return void res.end(Buffer.alloc(1_048_577))
    res.writeHead(200, { 'content-encoding': 'gzip' })
    res.end('x')
  })
  for (const path of ['/v1/items', '/open/long'])
    t.equal((await call(path)).body.error.code, 'UPSTREAM_ERROR')
})

const quotedPrintable = (text: string): string =>
  [...Buffer.from(text)]
    .map((b) =>
      b < 0x20 || b > 0x7e || b === 0x3d
        ? `=${b.toString(16).toUpperCase().padStart(2, '0')}`
        : String.fromCharCode(b),
    )
    .join('')
    .replaceAll(/[^=]{30}(?=[^=]{3})/g, '$&=\n')

const entities: Readonly<Record<string, string>> = {
  _: 'lowbar',
  '"': 'quot',
  '\\': 'bsol',
  '/': 'sol',
  '=': 'equals',
  '&': 'amp',
  '+': 'plus',
  ':': 'colon',
  '.': 'period',
  '%': 'percnt',
  '\n': 'NewLine',
}

t.test('every usual spelling of a secret is masked, also where it is escaped in part or twice', async (t) => {
  const text = 'ghp_S3cr3t/with+signs=and"quotes&<é>\\n\n end'
  const html = (c: string) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] ?? c
  const each = (of: (c: string) => string) => [...text].map(of).join('')
  const hex = Buffer.from(text).toString('hex')
  const base64 = (before: string, after = '') => Buffer.from(before + text + after).toString('base64')
  const code = (c: string) => c.codePointAt(0)!
  const spellings: Readonly<Record<string, string | Buffer>> = {
    'as it is': text,
    JSON: JSON.stringify(text),
    'JSON in JSON': JSON.stringify(JSON.stringify(text)),
    'JSON with slashes escaped': JSON.stringify(text).replaceAll('/', '\\/'),
    'JSON in ASCII': each((c) => `\\u${code(c).toString(16).padStart(4, '0')}`),
    'JSON escaped in part': each((c) =>
      c === '/' || c === 'é'
        ? `\\u00${code(c).toString(16).padStart(2, '0')}`
        : JSON.stringify(c).slice(1, -1),
    ),
    HTML: each(html),
    'HTML twice': each((c) => html(c).replace('&', '&amp;')),
    'HTML by number': each((c) => `&#${code(c)};`),
    'HTML by hex number': each((c) => `&#x${code(c).toString(16)};`),
    percent: encodeURIComponent(text),
    'percent in part': encodeURI(text),
    'percent twice': encodeURIComponent(encodeURIComponent(text)),
    'percent, all of it': [...Buffer.from(text)]
      .map((b) => `%${b.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
    form: new URLSearchParams({ text }).toString(),
    hex,
    'hex in capitals': hex.toUpperCase(),
    'hex with colons': hex.match(/../g)!.join(':'),
    'hex in C': hex
      .match(/../g)!
      .map((b) => `\\x${b}`)
      .join(''),
    'a list of numbers': JSON.stringify(Buffer.from(text)),
    'a list of numbers, printed': JSON.stringify([...Buffer.from(text)], null, 1),
    'a list of numbers, printed deep': JSON.stringify({ a: { b: { c: [...Buffer.from(text)] } } }, null, 4),
    'a list of hex': JSON.stringify(
      { a: [...Buffer.from(text)].map((b) => `0x${b.toString(16).padStart(2, '0')}`) },
      null,
      4,
    ),
    'octal escapes': [...Buffer.from(text)].map((b) => `\\${b.toString(8).padStart(3, '0')}`).join(''),
    'quoted-printable': [...Buffer.from(text)]
      .map((b, i) => `${i % 9 === 8 ? '=\r\n' : ''}=${b.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
    'quoted-printable, as little as it can be': quotedPrintable(text),
    'HTML, by every name': [...text].map((c) => (entities[c] ? `&${entities[c]};` : c)).join(''),
    base64: base64(''),
    'base64, one further': base64('a', 'b'),
    'base64, two further': base64('ab', ':x'),
    base64url: Buffer.from(`ab${text}`).toString('base64url'),
    'base64 in lines': base64('user:').replaceAll(/.{20}/g, '$&\r\n'),
    'base64 in lines, as JSON': JSON.stringify(base64('user:').replaceAll(/.{20}/g, '$&\n')),
    'base64 in a URL': encodeURIComponent(base64('a')),
    'base64 in JSON': base64('a').replaceAll('/', '\\/'),
    'UTF-16': Buffer.from(text, 'utf16le'),
    'UTF-16, the other way': Buffer.from(text, 'utf16le').swap16(),
    reversed: [...text].reverse().join(''),
    Markdown: text.replaceAll(/[\\_+<>]/g, '\\$&'),
    'a shell, quoted by backslashes': text.replaceAll(/[^0-9A-Za-zé\n]/g, '\\$&'),
    'CSV, quotes doubled': text.replaceAll('"', '""'),
    'base64 in lines, indented': base64('user:').replaceAll(/.{20}/g, '$&\n        '),
  }
  const mask = createMask([text])
  for (const [name, spelling] of Object.entries(spellings)) {
    const bytes = Buffer.concat([
      Buffer.from('before '),
      Buffer.from(spelling as string),
      Buffer.from(' after'),
    ])
    const masked = await mask(bytes.toString('latin1'))
    t.match(masked, /before .{0,90}\[secret\].{0,60} after/s, name)
    t.equal(masked.split('[secret]').length, 2, name)
  }
  const key = 'k3y+of/32=bits'
  t.equal(
    await createMask([key])('NN2XS43PMYXTGMR5MJUXI4Y k3y+of/32=bit s'),
    'NN2XS43PMYXTGMR5MJUXI4Y k3y+of/32=bit s',
  )
})

t.test('a long credential, such as a signed token, is masked as a short one is', async (t) => {
  const long = Buffer.from(Array.from({ length: 6_000 }, (_, i) => (i * i * 7 + i) % 251)).toString('base64')
  const { vault, call } = await start(t, (req, res) => {
    const { authorization = '' } = req.headers
    const token = authorization.replace('Bearer ', '')
    const hex = Buffer.from(token).toString('hex')
    res.end(JSON.stringify([authorization, encodeURIComponent(token), hex, btoa(`user:${token}`)]))
  })
  await vault.asOwner('POST', '/v1/vault/write', { scope, value: long })
  const { status, body } = await call('/v1/items')
  t.equal(status, 200)
  t.match(JSON.parse(body.body), ['Bearer [secret]', '[secret]', '[secret]', /^dXNlcj.?.?\[secret\].{0,4}$/])
})

t.test('a text made to keep the mask busy does not, and the vault goes on meanwhile', async (t) => {
  // Each would take hours if a repetition in the patterns had no upper limit.
  const mask = createMask(['ghp_S3cr3t/with "quotes"&\\\\ and\nlines'])
  const pieces = [
    '\\',
    '&amp;',
    '%25',
    '&#0',
    '000',
    ' ',
    '\\u',
    'ghp_S3cr3t/with ',
    '\r\n',
    '67 68 70 ',
    '1,\n',
  ]
  const nul = 'g\0\0\0h\0\0\0p\0\0\0_\0\0\0S\0\0\0'
  for (const piece of [...pieces, nul, '103,104,112,95,', 'Z2hwX1MzY3Iz']) {
    // Only this process's time: other load on the machine does not count.
    let last = process.cpuUsage()
    let longestMs = 0
    const look = () => {
      const { user, system } = process.cpuUsage(last)
      longestMs = Math.max(longestMs, (user + system) / 1_000)
      last = process.cpuUsage()
    }
    const ticks = setInterval(look, 1)
    const masked = await mask(piece.repeat(Math.floor(1_048_576 / piece.length)))
    look()
    clearInterval(ticks)
    t.notMatch(masked, /secret\]/)
    t.ok(longestMs < 250, `${JSON.stringify(piece)}: nothing else ran for ${Math.round(longestMs)} ms`)
  }
})

t.test('nothing of a secret stands in the head of an answer, in one header or in two', async (t) => {
  const { call } = await start(t, (_req, res) => {
    res.setHeader('content-type', 'text/plain')
    res.setHeader('x-github-a', 'ghp_S3cr3t/with')
    res.setHeader('x-github-b', '+signs=and"quotes')
    res.setHeader(`x-github-${Buffer.from(secret).toString('hex')}`, '1')
    res.setHeader('x-ratelimit-left', '5')
    res.statusMessage = secret.replaceAll(/[^ -~]/g, '')
    res.end('ok')
  })
  const { body } = await call('/v1/items')
  t.strictSame(body, {
    status: 200,
    headers: { 'content-type': 'text/plain' },
    body: 'ok',
    body_encoding: 'utf8',
  })
})

t.test('a mask leaves nothing of a secret, wherever it stands in base64', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.string({ minLength: 8, maxLength: 40 }),
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.string({ maxLength: 12 }),
      async (text, before, after) => {
        const bytes = Buffer.concat([Buffer.from(before), Buffer.from(text), Buffer.from(after)])
        const masked = await createMask([text])(bytes.toString('base64'))
        // At most the two letters at each end, which other bytes share, may remain.
        return (
          masked.includes('[secret]') &&
          !(await createMask([text])(masked.replaceAll('[secret]', ''))).includes('[secret]')
        )
      },
    ),
  )
})
