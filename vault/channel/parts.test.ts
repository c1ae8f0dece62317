import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { ReplayWindow } from '../remote/sessions.ts'
import { decodeMessage, encodeMessage, pad, unpad } from './message.ts'
import {
  commitmentTo,
  isRolloverSigned,
  isSessionKeySigned,
  type PairingTranscript,
  pairingPhrase,
  signRollover,
  signSessionKey,
} from './statements.ts'
import { createKeyPair, fromStored, lengthPrefixed, readUint64, toStored, uint64 } from './suite.ts'

t.test('different lists of parts never join to the same bytes', async () => {
  const parts = fc.array(fc.string({ maxLength: 4 }), { maxLength: 4 })
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      const same = a.length === b.length && a.every((part, i) => part === b[i])
      return lengthPrefixed(...a).equals(lengthPrefixed(...b)) === same
    }),
  )
  fc.assert(fc.property(fc.maxSafeNat(), (n) => readUint64(uint64(n), 0) === n))
})

t.test('numbers that eight bytes can not carry exactly are refused', async (t) => {
  for (const bad of [-1, 0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY]) t.throws(() => uint64(bad))
  t.equal(readUint64(Buffer.alloc(8, 0xff), 0), undefined)
})

t.test('padding comes off only when it is exactly what was put on', async () => {
  fc.assert(
    fc.property(fc.nat(70_000), fc.nat(), fc.integer({ min: 1, max: 255 }), (size, at, change) => {
      const content = randomBytes(size)
      const padded = pad(content)
      const outside = 4 + size
      const isWhole = unpad(padded)!.equals(content)
      if (outside === padded.length) return isWhole
      padded[outside + (at % (padded.length - outside))]! ^= change
      return isWhole && unpad(padded) === undefined
    }),
  )
})

t.test('content in a larger bucket than it needs, or longer than its bucket, is refused', async (t) => {
  t.equal(unpad(Buffer.alloc(4096)), undefined)
  t.equal(unpad(Buffer.alloc(1000)), undefined)
  t.equal(unpad(Buffer.alloc(1024, 0xff)), undefined)
  t.equal(unpad(Buffer.alloc(0)), undefined)
})

t.test('messages come out as they went in, and nothing else is read as one', async (t) => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.uint8Array({ maxLength: 300 }),
      (head, body) => {
        const message = decodeMessage(encodeMessage(head, body))!
        return (
          JSON.stringify(message.head) === JSON.stringify(JSON.parse(JSON.stringify(head))) &&
          message.body.equals(body)
        )
      },
    ),
  )
  fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => void decodeMessage(Buffer.from(bytes))))
  for (const head of ['[]', '1', 'null', '{', '"x"']) {
    const bytes = Buffer.concat([Buffer.of(0, 0, 0, head.length), Buffer.from(head)])
    t.equal(decodeMessage(bytes), undefined, head)
  }
})

t.test('each sequence number is taken once, in any order, until it is too old', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 3000 }), { maxLength: 400 }), (numbers) => {
      const window = new ReplayWindow()
      const taken = new Set<number>()
      let highest = 0
      return numbers.every((n) => {
        const expected = !taken.has(n) && n > highest - 1024
        taken.add(n)
        highest = Math.max(highest, n)
        return window.take(n) === expected
      })
    }),
  )
  for (const bad of [0, -1, 1.5, Number.NaN, 2 ** 53]) t.notOk(new ReplayWindow().take(bad))
})

const transcript = (): PairingTranscript => ({
  vaultId: 'v',
  serviceId: 's',
  route: randomBytes(16),
  vaultKey: randomBytes(32),
  signingKey: randomBytes(32),
  proxyKey: randomBytes(32),
  proxyNonce: randomBytes(32),
  vaultNonce: randomBytes(32),
})

t.test('the phrase has four words and changes with every part of the transcript', async (t) => {
  const whole = transcript()
  t.match(pairingPhrase(whole), /^[a-z]{3,8}( [a-z]{3,8}){3}$/)
  t.equal(pairingPhrase(whole), pairingPhrase({ ...whole }))
  for (const [name, other] of Object.entries({ ...transcript(), vaultId: 'w', serviceId: 't' }))
    t.not(pairingPhrase({ ...whole, [name]: other }), pairingPhrase(whole), name)
  t.notSame(commitmentTo(whole.proxyNonce), commitmentTo(whole.vaultNonce))
})

t.test('a signed key is believed for what was signed only', async (t) => {
  const [signing, other] = [createKeyPair('Ed25519'), fromStored(toStored(createKeyPair('Ed25519')))]
  const session = {
    vaultId: 'v',
    serviceId: 's',
    route: randomBytes(16),
    publicKey: randomBytes(32),
    expiresAtMs: 9,
  }
  const signature = signSessionKey(session, signing)
  t.ok(isSessionKeySigned(session, signature, signing.publicKey))
  t.notOk(isSessionKeySigned(session, signature, other!.publicKey), 'another signer')
  t.notOk(isSessionKeySigned(session, randomBytes(64), signing.publicKey), 'noise')
  t.notOk(isSessionKeySigned(session, Buffer.alloc(0), signing.publicKey), 'nothing')
  const changes = {
    vaultId: 'w',
    serviceId: 't',
    route: randomBytes(16),
    publicKey: randomBytes(32),
    expiresAtMs: 10,
  }
  for (const [name, value] of Object.entries(changes))
    t.notOk(isSessionKeySigned({ ...session, [name]: value }, signature, signing.publicKey), name)

  const rollover = { vaultId: 'v', publicKey: randomBytes(32), generation: 2 }
  const rolled = signRollover(rollover, signing)
  t.ok(isRolloverSigned(rollover, rolled, signing.publicKey))
  t.notOk(isRolloverSigned({ ...rollover, generation: 3 }, rolled, signing.publicKey))
  t.notOk(isRolloverSigned({ ...rollover, publicKey: randomBytes(32) }, rolled, signing.publicKey))
})
