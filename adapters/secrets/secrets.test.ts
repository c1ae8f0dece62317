import { execFile } from 'node:child_process'
import { createHmac, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { loadSecret } from './loadSecret.ts'
import { createSealer, hmacSha256 } from './sealer.ts'

const secret = Buffer.alloc(32, 7)

t.test('what was sealed opens under the same secret and context, and under no other', async (t) => {
  const sealer = createSealer(secret)
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), fc.string(), (plain, context, other) => {
      fc.pre(context !== other)
      const sealed = sealer.seal(plain, context)
      if (createSealer(secret).open(sealed, context) !== plain) return false
      t.throws(() => sealer.open(sealed, other), /another secret/)
      t.throws(() => createSealer(Buffer.alloc(32, 8)).open(sealed, context))
      return true
    }),
    { numRuns: 30 },
  )
})

t.test('a sealed text that was changed in any place does not open', async (t) => {
  const sealer = createSealer(secret)
  const sealed = sealer.seal('Bearer abc', 'links/1')
  for (let i = 0; i < sealed.length; i++) {
    const changed = `${sealed.slice(0, i)}${sealed[i] === 'A' ? 'B' : 'A'}${sealed.slice(i + 1)}`
    // The last character may carry bits that no byte uses.
    if (Buffer.from(changed.slice(3), 'base64url').equals(Buffer.from(sealed.slice(3), 'base64url'))) continue
    t.throws(() => sealer.open(changed, 'links/1'))
  }
  for (const part of ['', 'v1.', sealed.slice(0, 20), sealed.slice(0, -2), `${sealed}AA`]) {
    t.throws(() => sealer.open(part, 'links/1'))
  }
})

t.test('sealing twice gives two texts, neither shows the plain one, and no error does', async (t) => {
  const sealer = createSealer(secret)
  const [a, b] = [sealer.seal('hunter2', 'c'), sealer.seal('hunter2', 'c')]
  t.not(a, b)
  for (const sealed of [a, b])
    t.notMatch(Buffer.from(sealed.slice(3), 'base64url').toString('latin1'), /hunter2/)
  try {
    sealer.open(a, 'other')
    t.fail('opened')
  } catch (error) {
    t.notMatch((error as Error).message, 'hunter2')
    t.notMatch((error as Error).message, secret.toString('hex'))
  }
})

t.test('a mac is one of its purpose, its text and its secret', async (t) => {
  const sealer = createSealer(secret)
  const mac = sealer.mac('api-key', 'tg_live_x')
  t.equal(mac.length, 32)
  t.ok(mac.equals(createSealer(secret).mac('api-key', 'tg_live_x')))
  t.notOk(mac.equals(sealer.mac('review-token', 'tg_live_x')))
  t.notOk(mac.equals(sealer.mac('api-key', 'tg_live_y')))
  t.notOk(mac.equals(createSealer(Buffer.alloc(32, 8)).mac('api-key', 'tg_live_x')))
  t.throws(() => createSealer(Buffer.alloc(31)), /32 bytes/)
})

t.test(
  'an HMAC is that of RFC 4231 and of node, for every key and text, in whatever order they come',
  async (t) => {
    const hex = (text: string) => Buffer.from(text, 'hex')
    // Its test cases 1 and 2, whose data is text.
    for (const [key, text, expected] of [
      [
        Buffer.alloc(20, 0x0b),
        'Hi There',
        'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
      ],
      [
        Buffer.from('Jefe'),
        'what do ya want for nothing?',
        '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
      ],
    ] as const) {
      t.strictSame(hmacSha256(key)(text), hex(expected), text)
    }
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 64 }),
        fc.array(fc.string({ unit: 'binary', maxLength: 300 }), { minLength: 1 }),
        (key, texts) => {
          const mac = hmacSha256(key)
          const made = texts.map(mac)
          return texts.every((text, i) =>
            createHmac('sha256', key).update(text, 'utf8').digest().equals(made[i]!),
          )
        },
      ),
    )
    const lone = 'a\ud800b'
    t.strictSame(hmacSha256(secret)(lone), createHmac('sha256', secret).update(lone, 'utf8').digest())
    t.throws(() => hmacSha256(Buffer.alloc(65)), /64 bytes/)
  },
)

t.test('a missing secret is made once, private, and read again', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sub', 'secret')
  const made = loadSecret({ file, env: {} })
  t.equal(made.length, 32)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.ok(made.equals(loadSecret({ file, env: {} })))
  t.strictSame(readdirSync(join(folder, 'sub')), ['secret'], 'nothing is left beside it')
})

t.test('processes that start at once get the same secret', async (t) => {
  const file = join(t.testdir(), 'secret')
  const program = `
    import { loadSecret } from ${JSON.stringify(import.meta.resolve('./loadSecret.ts'))}
    console.log(loadSecret({ file: ${JSON.stringify(file)}, env: {} }).toString('hex'))`
  const run = promisify(execFile)
  const secrets = await Promise.all(
    Array.from(
      { length: 4 },
      async () => (await run(process.execPath, ['--input-type=module', '-e', program])).stdout,
    ),
  )
  t.strictSame(new Set(secrets), new Set([readFileSync(file, 'utf8')]))
})

t.test('the environment wins, in hex, base64 or base64url', async (t) => {
  const file = join(t.testdir({ secret: 'aa'.repeat(32) }), 'secret')
  const bytes = randomBytes(33)
  for (const form of ['hex', 'base64', 'base64url'] as const) {
    const env = { TOLLGATE_SECRET: ` ${bytes.toString(form)}\n` }
    t.ok(loadSecret({ file, env }).equals(bytes))
  }
  t.equal(loadSecret({ file, env: {} }).toString('hex'), 'aa'.repeat(32))
})

t.test('a secret that is too short or of another form is refused by name, and not shown', async (t) => {
  const folder = t.testdir({ short: 'ab'.repeat(31), empty: '' })
  for (const value of ['', 'ab'.repeat(31), 'p@ssword'.repeat(8), randomBytes(31).toString('base64url')]) {
    const load = () => loadSecret({ file: join(folder, 'unused'), env: { TOLLGATE_SECRET: value } })
    t.throws(load, /Expected TOLLGATE_SECRET to hold 32 random bytes/)
    if (value !== '') t.notMatch(messageOf(load), value)
  }
  for (const name of ['short', 'empty']) {
    t.throws(
      () => loadSecret({ file: join(folder, name), env: {} }),
      new RegExp(`Expected .*${name} to hold`),
    )
  }
})

function messageOf(load: () => unknown): string {
  try {
    return `Expected a refusal, got ${load()}`
  } catch (error) {
    return (error as Error).message
  }
}
