import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import {
  type ChannelKeys,
  keyIdOf,
  openRequest,
  openResponse,
  type ResponseKeys,
  readRequestHeader,
  readResponseHeader,
  sealNotice,
  sealRequest,
  sealResponse,
} from './envelope.ts'
import { type RequestHeader, requestBoxBytes, responseBoxBytes } from './header.ts'
import { bucketBytes, largestContentBytes } from './message.ts'
import { createKeyPair, type PreShared } from './suite.ts'

const [vault, proxy, stranger] = [createKeyPair('X25519'), createKeyPair('X25519'), createKeyPair('X25519')]
const channel: ChannelKeys = {
  vaultId: 'vault-1',
  serviceId: 'bot',
  route: randomBytes(16),
  headerKey: randomBytes(32),
}
const psk = (): PreShared => ({ id: randomBytes(16), key: randomBytes(32) })

const headerOf = (overrides: Partial<RequestHeader> = {}): RequestHeader => ({
  kind: 'call',
  keyId: keyIdOf(vault.publicKey),
  requestId: randomBytes(16),
  sequence: 1,
  expiresAtMs: 1_800_000_000_000,
  sender: Buffer.alloc(32),
  ...overrides,
})

async function opened(sealed: Buffer, using = channel, secret?: PreShared): Promise<Buffer | undefined> {
  const header = readRequestHeader(sealed, using)
  if (header === undefined) return undefined
  return (await openRequest(sealed, header, proxy.publicKey, vault, using, secret))?.content
}

async function exchange(
  content: Buffer,
): Promise<{ sealed: Buffer; keys: ResponseKeys; vaultKeys: ResponseKeys }> {
  const { sealed, keys } = await sealRequest(content, headerOf(), proxy, vault.publicKey, channel)
  const header = readRequestHeader(sealed, channel)!
  const request = await openRequest(sealed, header, proxy.publicKey, vault, channel)
  return { sealed, keys, vaultKeys: request!.keys }
}

t.test('what was sealed opens, and the answer too, at every size', async (t) => {
  const sizes = fc.oneof(
    fc.integer({ min: 0, max: 5000 }),
    fc.constantFrom(
      ...bucketBytes.flatMap((size) => [size - 5, size - 4, Math.min(size - 3, largestContentBytes)]),
    ),
  )
  await fc.assert(
    fc.asyncProperty(sizes, sizes, async (asked, answered) => {
      const [approval, reply] = [randomBytes(asked), randomBytes(answered)]
      const { sealed, keys, vaultKeys } = await exchange(approval)
      const response = sealResponse(reply, vaultKeys, channel, 5)
      return (
        (await opened(sealed))!.equals(approval) &&
        openResponse(response, keys)!.equals(reply) &&
        readResponseHeader(response, channel)!.requestId.equals(keys.header.requestId) &&
        bucketBytes.some((size) => size + 32 + requestBoxBytes + 16 === sealed.byteLength) &&
        bucketBytes.some((size) => size + 32 + responseBoxBytes + 16 === response.byteLength)
      )
    }),
    { numRuns: 40 },
  )
  await t.rejects(exchange(randomBytes(largestContentBytes + 1)), /expected at most/)
})

t.test('every kind of request of a size looks the same to who forwards it', async (t) => {
  const lengths = new Set<number>()
  for (const kind of ['begin', 'finish', 'hello', 'call'] as const)
    for (const size of [0, 1, 500, 1020]) {
      const header = headerOf({ kind })
      const secret = kind === 'begin' ? psk() : undefined
      lengths.add(
        (await sealRequest(randomBytes(size), header, proxy, vault.publicKey, channel, secret)).sealed.length,
      )
    }
  t.equal(lengths.size, 1)
  const { vaultKeys } = await exchange(Buffer.from('x'))
  const notice = sealNotice('revoked', randomBytes(16), channel, 5)
  t.equal(
    notice.length,
    sealResponse(Buffer.from('{}'), vaultKeys, channel, 5).length,
    'a notice as an answer',
  )
})

t.test('one flipped bit anywhere in a request or an answer, and it is refused', async () => {
  const { sealed, keys, vaultKeys } = await exchange(Buffer.from('pay 1 SOL to alice'))
  const response = sealResponse(Buffer.from('signed'), vaultKeys, channel, 5)
  // X25519 ignores the top bit of a public key (RFC 7748, section 5); the header box does not.
  await fc.assert(
    fc.asyncProperty(
      fc.nat(sealed.length * 8 - 1),
      async (bit) => (await opened(flip(sealed, bit))) === undefined,
    ),
    { numRuns: 300, examples: [[255], [7], [sealed.length * 8 - 1]] },
  )
  fc.assert(
    fc.property(fc.nat(response.length * 8 - 1), (bit) => {
      const bad = flip(response, bit)
      return readResponseHeader(bad, channel) === undefined || openResponse(bad, keys) === undefined
    }),
    { numRuns: 300 },
  )
})

t.test('a truncated or lengthened message is refused', async (t) => {
  const { sealed, keys, vaultKeys } = await exchange(randomBytes(3000))
  const response = sealResponse(randomBytes(3000), vaultKeys, channel, 5)
  await fc.assert(
    fc.asyncProperty(fc.nat(sealed.length - 1), async (length) => {
      const longer = Buffer.concat([sealed, randomBytes(length + 1)])
      const cut = response.subarray(0, Math.min(length, response.length - 1))
      return (
        (await opened(sealed.subarray(0, length))) === undefined &&
        (await opened(longer)) === undefined &&
        (readResponseHeader(cut, channel) === undefined || openResponse(cut, keys) === undefined)
      )
    }),
    { numRuns: 100, examples: [[32 + responseBoxBytes + 16 + bucketBytes[0]]] },
  )
  const shorter = response.subarray(0, response.length - 4096 + 1024)
  t.ok(readResponseHeader(shorter, channel), 'cut to a smaller bucket the header still reads')
  t.equal(openResponse(shorter, keys), undefined, 'but the answer does not open')
})

t.test('a message for another vault, service, route, key, sender or token is refused', async (t) => {
  const content = Buffer.from('x')
  const { sealed } = await sealRequest(content, headerOf(), proxy, vault.publicKey, channel)
  t.same(await opened(sealed), content)
  const others: Partial<ChannelKeys>[] = [
    { vaultId: 'vault-2' },
    { serviceId: 'bot2' },
    { vaultId: 'vault-1b', serviceId: 'ot' },
    { route: randomBytes(16) },
    { headerKey: randomBytes(32) },
  ]
  for (const other of others) t.equal(await opened(sealed, { ...channel, ...other }), undefined)
  const header = readRequestHeader(sealed, channel)!
  const from = (sender: Buffer, at = vault, secret?: PreShared) =>
    openRequest(sealed, header, sender, at, channel, secret)
  t.equal(await from(stranger.publicKey), undefined, 'another sender')
  t.equal(await from(proxy.publicKey, stranger), undefined, 'another vault key')
  t.equal(await from(proxy.publicKey, vault, psk()), undefined, 'a token where there was none')

  const secret = psk()
  const paired = await sealRequest(
    content,
    headerOf({ kind: 'begin' }),
    proxy,
    vault.publicKey,
    channel,
    secret,
  )
  t.same(await opened(paired.sealed, channel, secret), content)
  t.equal(await opened(paired.sealed), undefined, 'no token')
  t.equal(await opened(paired.sealed, channel, psk()), undefined, 'another token')
  t.equal(
    await opened(paired.sealed, channel, { ...secret, id: randomBytes(16) }),
    undefined,
    'another token id',
  )
})

t.test('an answer opens for its own request only, however alike the requests are', async (t) => {
  const [first, second] = [await exchange(Buffer.from('same')), await exchange(Buffer.from('same'))]
  const response = sealResponse(Buffer.from('for the first'), first!.vaultKeys, channel, 5)
  t.same(openResponse(response, first!.keys)?.toString(), 'for the first')
  t.equal(openResponse(response, second!.keys), undefined)
  for (const change of [
    { sequence: 2 },
    { expiresAtMs: 1 },
    { kind: 'hello' },
    { requestId: randomBytes(16) },
  ] as const) {
    const keys = { ...first!.keys, header: { ...first!.keys.header, ...change } }
    t.equal(openResponse(response, keys), undefined, `not with another ${Object.keys(change)[0]}`)
  }
})

t.test('two answers to one request share no key: what they have in common does not show', async (t) => {
  const { keys, vaultKeys } = await exchange(Buffer.from('x'))
  const [one, two] = [0, 1].map(() => sealResponse(Buffer.from('the same answer'), vaultKeys, channel, 5))
  t.notSame(one, two)
  t.same(openResponse(one!, keys), openResponse(two!, keys))
})

function flip(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[bit >> 3]! ^= 1 << (bit & 7)
  return copy
}
