import { generateKeyPairSync } from 'node:crypto'
import { base58 } from '@scure/base'
import {
  createSIWxMessage,
  createSIWxPayload,
  encodeSIWxHeader,
  verifySIWxSignature,
} from '@x402/extensions/sign-in-with-x'
import fc from 'fast-check'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { readSignIn, signInOffer } from '../../../core/x402/signIn.ts'
import { signInText } from '../../../core/x402/signInText.ts'
import { createWalletProofs } from './walletProofs.ts'

// Compares the texts with those of the extension's own package, which clients sign.
const proofs = createWalletProofs()
const account = privateKeyToAccount(generatePrivateKey())
const { publicKey } = generateKeyPairSync('ed25519')
const solanaAddress = base58.encode(Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url'))

const alphanumeric = [...'0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ']
const word = (minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...alphanumeric), minLength, maxLength })
const domain = fc.oneof(
  word(1, 20),
  fc.tuple(fc.domain(), fc.integer({ min: 1, max: 65_535 })).map(([host, port]) => `${host}:${port}`),
  fc.constantFrom('127.0.0.1:4021', '[::1]:8080', 'localhost'),
)
const network = fc.oneof(
  fc.constantFrom<NetworkId>('eip155:1', 'eip155:8453', 'eip155:84532', 'eip155:900719925474099'),
  fc.constantFrom<NetworkId>(
    'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
  ),
)
const statement = fc
  .string({ unit: fc.constantFrom(...alphanumeric, ' ', '.', ',', '-', "'"), minLength: 1, maxLength: 80 })
  .filter((text) => text.trim() !== '')
const issuedAtMs = fc.integer({ min: 0, max: Date.UTC(2100, 0, 1) })

t.test('the text is byte for byte that of the package, on every network', async (t) => {
  const path = fc.array(word(1, 12), { maxLength: 4 }).map((parts) => parts.join('/'))
  await fc.assert(
    fc.asyncProperty(
      ...[domain, path, statement, word(8, 64), network, issuedAtMs, fc.boolean()],
      async (domain, path, statement, nonce, network, issuedAtMs, isTls) => {
        const chain = network.startsWith('solana:') ? 'solana' : 'base'
        const address = chain === 'solana' ? solanaAddress : account.address
        const uri = `${isTls ? 'https' : 'http'}://${domain}/${path}`
        const expiresAtMs = issuedAtMs + 300_000
        const ours = proofs.signInMessage({
          chain,
          address,
          domain,
          uri,
          statement,
          nonce,
          issuedAtMs,
          expiresAtMs,
          network,
        } as Parameters<typeof proofs.signInMessage>[0])
        const info = {
          domain,
          uri,
          statement,
          nonce,
          version: '1',
          chainId: network,
          type: chain === 'solana' ? ('ed25519' as const) : ('eip191' as const),
          issuedAt: new Date(issuedAtMs).toISOString(),
          expirationTime: new Date(expiresAtMs).toISOString(),
        }
        t.equal(ours, createSIWxMessage(info, address))
      },
    ),
  )
})

t.test('a text with any of the optional fields is that of the package too', async (t) => {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
  const time = issuedAtMs.map((ms) => new Date(ms).toISOString())
  const resources = fc.array(
    word(1, 9).map((name) => `https://x.example/${name}`),
    { maxLength: 3, minLength: 1 },
  )
  const optional = fc.record({
    statement: maybe(statement),
    expirationTime: maybe(time),
    notBefore: maybe(time),
    requestId: maybe(word(1, 20)),
    resources: maybe(resources),
  })
  await fc.assert(
    fc.asyncProperty(optional, word(8, 32), time, network, async (more, nonce, issuedAt, network) => {
      const isSolana = network.startsWith('solana:')
      const fields = {
        domain: 'a.example',
        uri: 'https://a.example/x',
        version: '1',
        nonce,
        issuedAt,
        ...more,
      }
      const type = isSolana ? ('ed25519' as const) : ('eip191' as const)
      const address = isSolana ? solanaAddress : account.address
      const chainId = network.slice(network.indexOf(':') + 1)
      const ours = signInText(fields, isSolana ? 'Solana' : 'Ethereum', address, chainId)
      t.equal(ours, createSIWxMessage({ ...fields, chainId: network, type } as never, address))
    }),
  )
})

t.test("what the package's client sends is read, and the package accepts it too", async (t) => {
  const info = {
    domain: 'api.example:8443',
    uri: 'https://api.example:8443/api/link/ann/weather',
    statement: 'Sign in.',
    version: '1',
    nonce: '0123456789abcdef',
    issuedAt: new Date().toISOString(),
    expirationTime: new Date(Date.now() + 300_000).toISOString(),
  } as const
  const [chain] = signInOffer(info, ['eip155:8453']).supportedChains
  const payload = await createSIWxPayload({ ...info, ...chain! }, account, info.uri)
  t.match(await verifySIWxSignature(payload), { isValid: true })
  const read = readSignIn(encodeSIWxHeader(payload))
  t.match(read, {
    ok: true,
    proof: { domain: info.domain, uri: info.uri, nonce: info.nonce, network: 'eip155:8453' },
  })
  t.match(read, { proof: { address: account.address, signature: payload.signature } })
})

t.test('no header makes the reader throw, and its message does not repeat the header', async (t) => {
  const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
  const whole = {
    domain: 'd',
    uri: 'https://d/',
    version: '1',
    chainId: 'eip155:1',
    type: 'eip191',
    nonce: 'n',
    issuedAt: 'i',
    address: account.address,
    signature: '0x',
  }
  t.ok(readSignIn(encoded(whole)).ok)
  const cases: [object, RegExp][] = [
    [{ signature: undefined }, /the field signature as a string/],
    [{ signature: 7 }, /the field signature as a string/],
    [{ chainId: 'base' }, /Expected chainId as in supportedChains/],
    [{ type: 'ed25519' }, /Expected type eip191/],
    [{ chainId: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', type: 'ed25519' }, /an address on solana/],
    [{ address: '0x12' }, /an address on base/],
  ]
  for (const [change, expected] of cases) {
    const read = readSignIn(encoded({ ...whole, ...change }))
    t.match(read, { ok: false, message: expected })
  }
  for (const text of ['', 'x', '{}', encoded([]), encoded('secret'), 'e30=', `${encoded(whole)} `])
    t.match(readSignIn(text), { ok: false, message: /SIGN-IN-WITH-X cannot be read/ })
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.jsonValue().map(encoded)), (header) => {
      const read = readSignIn(header)
      return !read.ok && (header.length < 8 || !read.message.includes(header))
    }),
  )
})

t.test('a key of small order proves nothing on Solana', async (t) => {
  // The identity point, with the signature R = identity and S = 0, verifies for every text where small orders are accepted.
  const identity = new Uint8Array(32)
  identity[0] = 1
  const signature = new Uint8Array(64)
  signature[0] = 1
  const proof = await proofs.proofOf(
    'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    base58.encode(identity),
    'any text',
    base58.encode(signature),
  )
  t.equal(proof, undefined)
})

t.test('a key proves its wallet on all networks', async (t) => {
  const message = 'any text'
  const signature = await account.signMessage({ message })
  t.strictSame(await proofs.proofOf('eip155:137', account.address, message, signature), { network: null })
})
