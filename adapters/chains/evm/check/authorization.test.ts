import { createHash } from 'node:crypto'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import { ExactEvmSchemeV1 } from '@x402/evm/exact/v1/client'
import fc from 'fast-check'
import t from 'tap'
import { getAddress, hashTypedData, toHex, keccak256 as viemKeccak } from 'viem'
import { checksumAddress, keccak256 } from '../../../../core/evm/hex.ts'
import type { Checked } from '../../../../core/ports/chains/settler.ts'
import { type PaymentPayload, type PaymentRequirements, transferTypes } from '../../../../core/x402/types.ts'
import {
  type AuthorizationFields,
  network,
  newAccount,
  signPayment,
  termsOf,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from '../rpc/nodes.ts'
import { authorizationDigest, domainSeparator } from './authorization.ts'
import { createEvmCheck } from './payment.ts'

const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length }).map((b) => hexOf(b))
const uint256 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
  fc.nat().map(BigInt),
  fc.constantFrom(
    0n,
    1n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 53n,
    999_999_999_999_999n,
    10n ** 15n,
    2n ** 256n - 1n,
  ),
)

t.test('the digest is the EIP-712 hash that viem computes, for any authorisation and token', async () => {
  const run = fc.property(
    fc.record({
      from: bytes(20),
      to: bytes(20),
      value: uint256,
      validAfter: uint256,
      validBefore: uint256,
      nonce: bytes(32),
      // viem leaves an empty name or version out of the domain type.
      name: fc.string({ unit: 'binary', minLength: 1 }),
      version: fc.string({ minLength: 1 }),
      chainId: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
      verifyingContract: bytes(20),
    }),
    ({ name, version, chainId, verifyingContract, ...message }) => {
      const domain = { name, version, chainId, verifyingContract }
      const separator = domainSeparator(domain)
      const ours = authorizationDigest(separator, {
        ...message,
        value: String(message.value),
        validAfter: String(message.validAfter),
        validBefore: String(message.validBefore),
        signature: '0x',
      })
      const theirs = hashTypedData({
        domain,
        types: transferTypes,
        primaryType: 'TransferWithAuthorization',
        message,
      })
      return hexOf(ours) === theirs
    },
  )
  fc.assert(run, { numRuns: 200 })
})

t.test('keccak-256 and the checksum of an address agree with viem', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), (b) => hexOf(keccak256(b)) === viemKeccak(toHex(b))),
  )
  fc.assert(fc.property(bytes(20), (address) => checksumAddress(address) === getAddress(address)))
})

let now = Date.now()
const check = createEvmCheck({ network, assets: [usdc], clock: { now: () => now } })
const judge = (payment: PaymentPayload, terms: PaymentRequirements = termsOf()): Checked => {
  const checked = check(payment, terms)
  if (checked instanceof Promise) throw new Error('expected an answer at once')
  return checked
}

t.test('a payment is identified by network, asset, payer and nonce, whatever their case', async (t) => {
  const account = newAccount()
  const terms = termsOf()
  const payment = await signPayment(account, terms)
  const { authorization, signature } = payment.payload as {
    authorization: AuthorizationFields
    signature: Hex
  }
  const name = `${network}|${usdc.address}|${account.address}|${authorization.nonce}`.toLowerCase()
  const identity = {
    key: createHash('sha256').update(name).digest('hex'),
    network,
    asset: usdc.address,
    payer: account.address,
    nonce: authorization.nonce,
    payTo: terms.payTo,
    amountAtomic: 10_000n,
    validBeforeMs: Number(authorization.validBefore) * 1000,
  }
  t.same(judge(payment, terms), { ok: true, identity })

  const upper = (hex: string) => `0x${hex.slice(2).toUpperCase()}`
  const shouted = {
    signature: upper(signature),
    authorization: { ...authorization, from: upper(authorization.from), nonce: upper(authorization.nonce) },
  }
  t.same(judge({ ...payment, payload: shouted }, { ...terms, asset: usdc.address.toLowerCase() }), {
    ok: true,
    identity,
  })
})

t.test('what the real clients sign is accepted, version 2 and version 1', async (t) => {
  const account = newAccount()
  const terms = termsOf()
  const v2 = await new ExactEvmScheme(account).createPaymentPayload(2, {
    ...terms,
    extra: { ...terms.extra },
  })
  t.match(
    judge({
      x402Version: 2,
      scheme: 'exact',
      network,
      payload: v2.payload as Record<string, unknown>,
      accepted: { ...terms },
    }),
    { ok: true, identity: { payer: account.address } },
  )
  const v1Terms = {
    scheme: 'exact',
    network: 'base-sepolia',
    maxAmountRequired: terms.amount,
    asset: terms.asset,
    payTo: terms.payTo,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2' },
    resource: 'http://localhost/x',
    description: '',
    mimeType: '',
    outputSchema: {},
  }
  const v1 = (await new ExactEvmSchemeV1(account).createPaymentPayload(1, v1Terms as never)) as unknown as {
    payload: Record<string, unknown>
  }
  t.match(judge({ x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload: v1.payload }), {
    ok: true,
    identity: { payer: account.address, network },
  })
})

t.test('each wrong term has its own reason', async (t) => {
  const account = newAccount()
  const terms = termsOf()
  const seconds = Math.floor(now / 1000)
  const signed = async (changes: Partial<AuthorizationFields>, reason: string | true, version: 1 | 2 = 2) => {
    const payment = await signPayment(account, terms, changes)
    const checked = judge({ ...payment, x402Version: version })
    t.equal(checked.ok || checked.reason, reason, JSON.stringify(changes))
  }
  await signed({ to: '0x00000000000000000000000000000000000000aa' }, 'invalid_exact_evm_recipient_mismatch')
  await signed({ value: '9999' }, 'invalid_exact_evm_payload_authorization_value_mismatch')
  await signed({ value: '10001' }, 'invalid_exact_evm_payload_authorization_value_mismatch')
  await signed({ value: '10001' }, 'invalid_exact_evm_authorization_value', 1)
  const before = 'invalid_exact_evm_payload_authorization_valid_before'
  await signed({ validBefore: '0' }, before)
  await signed({ validBefore: String(seconds + 5) }, before)
  await signed({ validBefore: String(seconds + 6) }, true)
  await signed({ validBefore: String(seconds + 660) }, true)
  await signed({ validBefore: String(seconds + 661) }, before)
  await signed({ validBefore: String(2n ** 256n - 1n) }, before)
  const after = 'invalid_exact_evm_payload_authorization_valid_after'
  await signed({ validAfter: '0' }, true)
  await signed({ validAfter: String(seconds - 1) }, true)
  await signed({ validAfter: String(seconds) }, after)
  await signed({ validAfter: String(2n ** 256n - 1n) }, after)

  const payment = await signPayment(account, terms)
  const reasonFor = (changes: Partial<PaymentPayload>, asked: Partial<PaymentRequirements> = {}) => {
    const checked = judge({ ...payment, ...changes }, { ...terms, ...asked })
    return checked.ok || checked.reason
  }
  t.equal(reasonFor({ scheme: 'upto' }), 'invalid_exact_evm_scheme')
  t.equal(reasonFor({ network: 'eip155:8453' }), 'invalid_exact_evm_network_mismatch')
  t.equal(
    reasonFor({ network: 'base-sepolia' }),
    'invalid_exact_evm_network_mismatch',
    'a v1 name in a v2 payment',
  )
  t.equal(reasonFor({}, { network: 'eip155:8453' }), 'invalid_exact_evm_network_mismatch')
  const otherToken = { asset: '0x00000000000000000000000000000000000000cc' }
  t.equal(reasonFor({}, otherToken), 'invalid_exact_evm_missing_eip712_domain')
  t.equal(reasonFor({ payload: { permit2Authorization: {}, signature: '0x00' } }), 'unsupported_payload_type')
})

t.test('whatever is changed after signing, the payment is refused', async (t) => {
  const account = newAccount()
  const terms = termsOf()
  const payment = await signPayment(account, terms)
  const { authorization, signature } = payment.payload as {
    authorization: AuthorizationFields
    signature: Hex
  }
  const flip = (hex: string, at: number) =>
    hex.slice(0, at) + (Number.parseInt(hex[at]!, 16) ^ 1).toString(16) + hex.slice(at + 1)

  for (const field of ['from', 'to', 'nonce'] as const) {
    for (let at = 2; at < authorization[field].length; at++) {
      const changed = { ...authorization, [field]: flip(authorization[field].toLowerCase(), at) }
      const checked = judge({ ...payment, payload: { signature, authorization: changed } })
      const reason = field === 'to' ? 'invalid_exact_evm_recipient_mismatch' : 'invalid_exact_evm_signature'
      if (checked.ok || checked.reason !== reason) t.fail(`${field} at ${at}: ${JSON.stringify(checked)}`)
    }
  }
  for (const field of ['validAfter', 'validBefore'] as const) {
    const changed = { ...authorization, [field]: String(BigInt(authorization[field]) - 1n) }
    t.match(judge({ ...payment, payload: { signature, authorization: changed } }), {
      reason: 'invalid_exact_evm_signature',
    })
  }
  for (let at = 2; at < signature.length; at++) {
    const checked = judge({ ...payment, payload: { signature: flip(signature, at), authorization } })
    if (checked.ok || checked.reason !== 'invalid_exact_evm_signature') t.fail(`signature at ${at}`)
  }
  for (const domain of [
    { name: 'USD Coin', version: '2' },
    { name: 'USDC', version: '1' },
  ]) {
    const other = createEvmCheck({
      network,
      assets: [{ ...usdc, eip712: domain }],
      clock: { now: () => now },
    })
    t.match(other(payment, terms), { reason: 'invalid_exact_evm_signature' }, JSON.stringify(domain))
  }
})

t.test('numbers and hex have one spelling; inherited fields are not read', async (t) => {
  const payment = await signPayment(newAccount(), termsOf())
  const { authorization, signature } = payment.payload as {
    authorization: AuthorizationFields
    signature: Hex
  }
  const tried = (changes: Record<string, unknown>) =>
    judge({ ...payment, payload: { signature, authorization: { ...authorization, ...changes } } })
  for (const value of [
    '010000',
    '+10000',
    '1e4',
    '0x2710',
    ' 10000',
    '10000 ',
    '10000.0',
    '',
    '-1',
    10_000,
    10_000n,
    null,
    ['10000'],
    '9'.repeat(79),
    '１００００',
  ]) {
    t.match(tried({ value }), { ok: false, reason: 'invalid_payload' }, String(value))
    t.match(tried({ validAfter: value }), { ok: false }, String(value))
  }
  for (const nonce of [
    '0x',
    authorization.nonce.slice(2),
    `${authorization.nonce}00`,
    `${authorization.nonce.slice(0, -1)}g`,
    `${authorization.nonce}\n`,
    1,
  ]) {
    t.match(tried({ nonce }), { ok: false, reason: 'invalid_payload' }, String(nonce))
  }
  for (const wrong of [
    '',
    '0x',
    '0x0',
    'zz',
    signature.slice(2),
    `${signature} `,
    7,
    null,
    `0x${'00'.repeat(10_000)}`,
  ]) {
    const checked = judge({ ...payment, payload: { authorization, signature: wrong } })
    t.match(
      checked,
      { ok: false, reason: 'invalid_exact_evm_failed_to_parse_signature' },
      String(wrong).slice(0, 20),
    )
  }
  t.match(judge({ ...payment, payload: Object.create(payment.payload) }), { ok: false })
  const inherited = { signature, authorization: Object.create(authorization) }
  t.match(judge({ ...payment, payload: inherited }), { ok: false, reason: 'invalid_payload' })
})

t.test('no JSON makes it throw or accept', async () => {
  const payment = await signPayment(newAccount(), termsOf())
  const payload = payment.payload as { authorization: AuthorizationFields }
  const json = fc.jsonValue()
  const strange = fc.oneof(
    json,
    fc.record({ signature: json, authorization: json }),
    fc.record({ signature: fc.string(), authorization: fc.constant(payload.authorization) }),
    fc
      .tuple(fc.constantFrom(...Object.keys(payload.authorization)), json)
      .map(([key, value]) => ({ ...payload, authorization: { ...payload.authorization, [key]: value } })),
  )
  const run = fc.property(strange, fc.anything(), (payload, accepted) => {
    const checked = judge({
      ...payment,
      payload: payload as Record<string, unknown>,
      accepted: accepted as never,
    })
    return !checked.ok && typeof checked.reason === 'string'
  })
  fc.assert(run, { numRuns: 500 })
})

t.test('time passes: the same payment is too late', async (t) => {
  const before = now
  now = Date.now()
  const payment = await signPayment(newAccount(), termsOf())
  t.match(judge(payment), { ok: true })
  const { validBefore } = payment.payload['authorization'] as { validBefore: string }
  now = Number(validBefore) * 1000 - 5_000
  t.match(judge(payment), { reason: 'invalid_exact_evm_payload_authorization_valid_before' })
  now = before
})

t.test(
  'a payment for other terms is known by its signature: its buyer may be back for what it bought',
  async (t) => {
    const account = newAccount()
    const terms = termsOf()
    const payment = await signPayment(account, terms)
    const checked = judge(payment)
    if (!checked.ok) return t.fail(checked.message)
    const { signature } = (await signPayment(newAccount(), terms)).payload as { signature: Hex }
    const forged = { ...payment, payload: { ...payment.payload, signature } }
    for (const changed of [{ amount: '20000' }, { payTo: newAccount().address }]) {
      const now = { ...terms, ...changed }
      t.match(judge(payment, now), {
        ok: false,
        identity: { key: checked.identity.key, amountAtomic: 10_000n },
      })
      t.match(judge(forged, now), { ok: false, identity: undefined })
    }
  },
)
