import { request } from 'node:http'
import { base58 } from '@scure/base'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { newSolanaSecret } from '../../localnet/demoWallets.ts'
import { type Bought, type Buyer, newBuyer, present } from './helpers/buyers.ts'
import type { Chain } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const url = await product.addLink('refusals')

type Payment = { x402Version: number; payload: Record<string, unknown>; accepted: Record<string, unknown> }
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const decode = (header: string): Payment => JSON.parse(Buffer.from(header, 'base64').toString())
/** Reasons of what could not be read; everything else was, and is told what to pay. */
const unread =
  /^(?:invalid_payload|invalid_exact_svm_payload_transaction(?:_could_not_be_decoded)?|invalid_exact_evm_failed_to_parse_signature)$/

/** Status, headers and body say the same of a refused payment. */
function agrees({ status, headers, body, receipt }: Bought): boolean {
  const reason = body.error?.reason ?? ''
  const offer = headers.get('payment-required')
  const { network, errorReason, success } = receipt ?? {}
  if (success !== false || errorReason !== reason) return false
  if (!chains.both.some((chain) => chain.network === network)) return false
  if (unread.test(reason)) return status === 400 && offer === null
  return status === 402 && JSON.parse(atob(offer!)).error === reason
}

/** For each invalid payment: nothing moves, and the seller gets no request. */
async function refused(t: Test, payment: string, reason: string | RegExp, name: string): Promise<Bought> {
  const called = api.calls.length
  const response = await present(`${url}?n=refused`, payment)
  const output = `${name}: ${response.text.slice(0, 300)}`
  t.match(response.body, { error: { code: 'invalid_payment', reason, message: /\S/ } }, output)
  t.ok(agrees(response), output)
  t.equal(api.calls.length, called)
  return response
}

/** A stranger's wallet, which could take the money. */
function stranger(chain: Chain): string {
  if (chain.name === 'evm') return privateKeyToAddress(generatePrivateKey())
  const address = base58.encode(newSolanaSecret().subarray(32))
  chains.solana.createAta(address)
  return address
}

t.test('what is no payment at all is refused in words, whatever it is', async (t) => {
  const payment = decode(await (await newBuyer(chains, chains.both[0])).sign(url))
  const text = JSON.stringify(payment)
  const b64 = (raw: string) => Buffer.from(raw).toString('base64')
  const cases: Record<string, string> = {
    'not base64': '%%%',
    'URL-safe base64': Buffer.from('{"a":"ÿÿÿ>>>???"}').toString('base64url'),
    'not JSON': b64('hello'),
    'an array': b64('[]'),
    null: b64('null'),
    'an empty object': b64('{}'),
    'a key twice': b64(text.replace('"x402Version":2', '"x402Version":2,"x402Version":2')),
    'another version': encode({ ...payment, x402Version: 3 }),
    'no payload': encode({ ...payment, payload: undefined }),
    'a payload that is text': encode({ ...payment, payload: 'x' }),
    'another scheme': encode({ ...payment, accepted: { ...payment.accepted, scheme: 'upto' } }),
    'another network': encode({ ...payment, accepted: { ...payment.accepted, network: 'eip155:1' } }),
    'nesting without end': b64('['.repeat(5_000) + ']'.repeat(5_000)),
    __proto__: b64(text.replace('"x402Version"', '"__proto__":{"x":1},"x402Version"')),
    'longer than 16 KiB': encode({ ...payment, more: 'x'.repeat(13_000) }),
  }
  for (const [name, header] of Object.entries(cases)) await refused(t, header, /^[a-z0-9_]+$/, name)
})

t.test('a payment in two headers is refused', async (t) => {
  const payment = await (await newBuyer(chains, chains.both[0])).sign(url)
  const status = await new Promise((resolve, reject) => {
    const sent = request(`${url}?n=two`, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    sent.on('error', reject)
    sent.setHeader('payment-signature', [payment, payment]).end()
  })
  t.equal(status, 400)
})

t.test('no header makes anything but a refusal', async (t) => {
  const called = api.calls.length
  const text = fc.oneof(
    fc.string({ unit: 'grapheme-ascii', minLength: 1 }),
    fc.json().map((json) => Buffer.from(json).toString('base64')),
    fc
      .record({
        x402Version: fc.constantFrom(1, 2, '2', null),
        scheme: fc.constantFrom('exact', '', 7),
        network: fc.constantFrom('base-sepolia', 'solana-devnet', chains.both[0].network, {}),
        accepted: fc.oneof(
          fc.anything(),
          fc.record({
            scheme: fc.constant('exact'),
            network: fc.constantFrom(...chains.both.map((c) => c.network)),
          }),
        ),
        payload: fc.oneof(
          fc.anything(),
          fc.record({ transaction: fc.base64String() }),
          fc.record({ signature: fc.constant(`0x${'11'.repeat(65)}`), authorization: fc.anything() }),
        ),
      })
      .map((value) => {
        try {
          return encode(value)
        } catch {
          return 'e30='
        }
      }),
  )
  await fc.assert(
    fc.asyncProperty(text, async (header) => {
      const value = header.trim()
      fc.pre(value !== '' && /^[\x20-\x7e]*$/.test(value) && value.length < 15_000)
      const response = await present(`${url}?n=any`, value)
      return agrees(response)
    }),
    { numRuns: 300 },
  )
  t.equal(api.calls.length, called)
})

for (const chain of chains.both) {
  t.test(
    `each reason why a payment is bad reaches the buyer on ${chain.name}, and nothing is charged`,
    async (t) => {
      const buyer = await newBuyer(chains, chain)
      const [had, earned] = [await chain.balance(buyer.address), await chain.balance(payTo(chain))]
      chain.rpc.resetCounters()
      for (const { name, reason, payment } of await casesOf(chain, buyer)) {
        await refused(t, payment, reason, name)
      }
      t.equal(await chain.balance(buyer.address), had)
      t.equal(await chain.balance(payTo(chain)), earned)
      t.equal(chain.rpc.calls(chain.methods.broadcast), 0, 'nothing was ever sent to the chain')
    },
  )

  t.test(`a payment that was settled elsewhere already is refused on ${chain.name}`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    // With a key of its own: of two that sign with one, the second waits.
    const key = generatePrivateKey()
    await chains.evm.fundEth(privateKeyToAddress(key), 10n ** 18n)
    const env = { ...chains.env, TOLLGATE_FACILITATOR_EVM_KEY: key }
    const other = await startProduct(t, {}, { ...chains, env })
    // The same seller at another gateway, which does not share a database: only the chain knows.
    await other.setPayout({ base: product.wallets.base, solana: product.wallets.solana })
    const otherUrl = await other.addLink('elsewhere')
    // Without the unsigned `resource`, which names this gateway: a stranger leaves it out.
    const { x402Version, payload, accepted } = decode(await buyer.sign(url))
    const payment = encode({ x402Version, payload, accepted })
    t.equal((await present(`${otherUrl}?n=1`, payment)).status, 200)
    await refused(
      t,
      payment,
      chain.name === 'evm' ? 'invalid_exact_evm_nonce_already_used' : 'duplicate_settlement',
      'settled elsewhere',
    )
  })

  t.test(`a paid call asks ${chain.name} twice, and then how it went`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const payments = [await buyer.sign(url), await buyer.sign(url)]
    t.equal((await present(`${url}?n=warm`, payments[0]!)).status, 200)
    chain.rpc.resetCounters()
    t.equal((await present(`${url}?n=counted`, payments[1]!)).status, 200)
    t.equal(chain.rpc.calls(chain.methods.verify), 1)
    t.equal(chain.rpc.calls(chain.methods.broadcast), 1)
    t.equal(chain.rpc.calls() - chain.rpc.calls(chain.methods.status), 2, 'and nothing else')
  })
}

t.test('the books know nothing of all that was refused', async (t) => {
  const ledger = await tollgate.stack.store.purchases.ledgerCheck()
  t.match(ledger, {
    purchases: 4,
    unresolvedPayments: 0,
    refundDue: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

interface Case {
  readonly name: string
  readonly reason: string | RegExp
  readonly payment: string
}

/** Bad payments as the unmodified client signs them when it is told other terms, or with bytes changed afterwards. */
async function casesOf(chain: Chain, buyer: Buyer): Promise<Case[]> {
  const old = chain.name === 'solana' ? await expired(buyer) : ''
  const good = decode(await buyer.sign(url))
  const poor = await newBuyer(chains, chain, 9_999n)
  const signed = (change: object) => buyer.sign(url, undefined, change)
  /** The payload of other terms under the true ones: what is accepted only names the offer. */
  const hidden = async (change: object) =>
    encode({ ...decode(await signed(change)), accepted: good.accepted })
  const stolen = stranger(chain)
  if (chain.name === 'solana') {
    const bytes = Buffer.from(String(good.payload['transaction']), 'base64')
    const spoilt = Buffer.from(bytes)
    spoilt[70]! ^= 1
    const withTransaction = (transaction: unknown) => encode({ ...good, payload: { transaction } })
    const own = { extra: { feePayer: buyer.address } }
    chains.solana.mintToken(chains.solana.token2022Mint, buyer.address, 1_000_000n)
    chains.solana.createAta(payTo(chain), chains.solana.token2022Mint)
    return [
      {
        name: 'too little',
        reason: 'invalid_exact_svm_payload_amount_mismatch',
        payment: await hidden({ amount: '9999' }),
      },
      {
        name: 'too much',
        reason: 'invalid_exact_svm_payload_amount_mismatch',
        payment: await hidden({ amount: '10001' }),
      },
      {
        name: 'to somebody else',
        reason: 'invalid_exact_svm_payload_recipient_mismatch',
        payment: await hidden({ payTo: stolen }),
      },
      {
        name: 'another mint',
        reason: 'invalid_exact_svm_payload_no_transfer_instruction',
        payment: await hidden({ asset: chains.solana.token2022Mint }),
      },
      { name: 'a fee payer of its own', reason: /fee_payer/, payment: await hidden(own) },
      { name: 'no transaction', reason: /invalid_/, payment: withTransaction(undefined) },
      {
        name: 'no transaction but text',
        reason: /invalid_exact_svm_payload_transaction/,
        payment: withTransaction('AAAA'),
      },
      {
        name: 'cut short',
        reason: /invalid_exact_svm_payload_transaction/,
        payment: withTransaction(bytes.subarray(0, 100).toString('base64')),
      },
      {
        name: 'a spoilt signature',
        reason: 'invalid_exact_svm_payload_signature_invalid',
        payment: withTransaction(spoilt.toString('base64')),
      },
      { name: 'too little in the wallet', reason: 'insufficient_funds', payment: await poor.sign(url) },
      {
        name: 'a block hash that is too old',
        reason: /block_height_exceeded|simulation/,
        payment: old,
      },
    ]
  }
  const change = (part: object) =>
    encode({
      ...good,
      payload: { ...good.payload, authorization: { ...(good.payload['authorization'] as object), ...part } },
    })
  const used = decode(await poor.sign(url))
  return [
    {
      name: 'too little',
      reason: 'invalid_exact_evm_payload_authorization_value_mismatch',
      payment: await hidden({ amount: '9999' }),
    },
    {
      name: 'too much',
      reason: 'invalid_exact_evm_payload_authorization_value_mismatch',
      payment: await hidden({ amount: '10001' }),
    },
    {
      name: 'to somebody else',
      reason: 'invalid_exact_evm_recipient_mismatch',
      payment: await hidden({ payTo: stolen }),
    },
    {
      name: 'for another token',
      reason: 'invalid_exact_evm_signature',
      payment: await hidden({ asset: stolen }),
    },
    {
      name: 'in another domain',
      reason: 'invalid_exact_evm_signature',
      payment: await hidden({ extra: { name: 'USD Coin' } }),
    },
    {
      name: 'over at once',
      reason: 'invalid_exact_evm_payload_authorization_valid_before',
      payment: await hidden({ maxTimeoutSeconds: 1 }),
    },
    {
      name: 'good for years',
      reason: 'invalid_exact_evm_payload_authorization_valid_before',
      payment: await hidden({ maxTimeoutSeconds: 100_000_000 }),
    },
    {
      name: 'not good yet',
      reason: 'invalid_exact_evm_payload_authorization_valid_after',
      payment: change({ validAfter: String(Math.floor(Date.now() / 1000) + 100) }),
    },
    {
      name: 'a value changed after signing',
      reason: 'invalid_exact_evm_signature',
      payment: change({ nonce: `0x${'12'.repeat(32)}` }),
    },
    {
      name: 'another payer than the signer',
      reason: 'invalid_exact_evm_signature',
      payment: change({ from: poor.address }),
    },
    { name: 'a number where text belongs', reason: /invalid_/, payment: change({ value: 10_000 }) },
    {
      name: 'no authorisation',
      reason: /invalid_|unsupported_/,
      payment: encode({ ...good, payload: { signature: '0x' } }),
    },
    {
      name: 'no signature',
      reason: /invalid_/,
      payment: encode({ ...good, payload: { ...good.payload, signature: '0x' } }),
    },
    {
      name: 'too little in the wallet',
      reason: 'invalid_exact_evm_insufficient_balance',
      payment: encode(used),
    },
  ]
}

/** A payment that waited until its block hash was out of use: a minute of slots. */
async function expired(buyer: Buyer): Promise<string> {
  const payment = await buyer.sign(url)
  chains.solana.advanceSlots(2_500)
  return payment
}
