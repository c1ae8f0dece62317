import { createHash } from 'node:crypto'
import { Keypair, PublicKey, VersionedTransaction } from '@solana/web3.js'
import fc from 'fast-check'
import t from 'tap'
import { recoverTypedDataAddress } from 'viem'
import { createEvmCheck } from '../../adapters/chains/evm/check/payment.ts'
import { checkSolanaPayment } from '../../adapters/chains/solana/check/payment.ts'
import { solanaRules } from '../../adapters/chains/solana/check/rules.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { tokenProgramBytes } from '../../core/solana/addresses.ts'
import { encodeHeader, readPayment } from '../../core/x402/header.ts'
import type { SolanaAccount } from '../../core/x402/solanaTermsFault.ts'
import { transferTypes } from '../../core/x402/types.ts'
import { account, other, sign as signEvm, usdc } from '../../test/helpers/vault/plugins/chain-evm/evm.ts'
import {
  ata,
  mint,
  payee,
  sign as signSolana,
  us,
} from '../../test/helpers/vault/plugins/chain-solana/solana.ts'
import evm from '../plugins/chain-evm/index.ts'
import solana from '../plugins/chain-solana/index.ts'
import { type BuildPayment, type BuildPaymentRequest, buildPayment } from './buildPayment.ts'
import { budgetSpends } from './effect.ts'
import type { SolanaPaymentRpc } from './payment.ts'

const nowMs = Date.UTC(2026, 5, 1)
const feePayer = Keypair.fromSeed(createHash('sha256').update('facilitator').digest()).publicKey.toBase58()
const mainnet = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'

const onBase = {
  scheme: 'exact',
  network: 'eip155:8453',
  amount: '250000',
  asset: usdc,
  payTo: other,
  maxTimeoutSeconds: 60,
  extra: { name: 'USD Coin', version: '2' },
}
const onSolana = {
  ...onBase,
  network: mainnet,
  asset: mint.toBase58(),
  payTo: payee.toBase58(),
  extra: { feePayer, memo: 'order 7' },
}
const facilitator = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
const uptoExtra = { ...onBase.extra, facilitatorAddress: facilitator.toLowerCase() }
const offerOf = (...accepts: object[]) => ({
  x402Version: 2,
  error: 'payment required',
  resource: { url: 'https://api.example.com/hello', description: 'A greeting', mimeType: 'text/plain' },
  accepts,
})

const tokenAccount = (owner: PublicKey, amount: bigint): SolanaAccount => {
  const data = Buffer.alloc(165)
  data.set(mint.toBytes(), 0)
  data.set(owner.toBytes(), 32)
  data.writeBigUInt64LE(amount, 64)
  data[108] = 1
  return { owner: new PublicKey(tokenProgramBytes.token).toBase58(), isExecutable: false, data }
}
const mintAccount = { ...tokenAccount(payee, 0n), data: Buffer.alloc(82, 0).fill(6, 44, 45) }

/** A node with these accounts and no others. */
function node(change: Partial<SolanaPaymentRpc> = {}, accounts: Record<string, SolanaAccount> = {}) {
  const known: Record<string, SolanaAccount> = {
    [mint.toBase58()]: mintAccount,
    [ata(us.publicKey).toBase58()]: tokenAccount(us.publicKey, 1_000_000n),
    [ata(payee).toBase58()]: tokenAccount(payee, 0n),
    ...accounts,
  }
  return (): SolanaPaymentRpc => ({
    genesisHash: async () => '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d',
    latestBlockhash: async () => ({ blockhash: stranger, lastValidBlockHeight: 5 }),
    accounts: async (addresses) => addresses.map((address) => known[address]),
    ...change,
  })
}
const stranger = new PublicKey(createHash('sha256').update('hash').digest()).toBase58()

const build = (paymentRequired: unknown, change: Partial<BuildPaymentRequest> = {}): Promise<BuildPayment> =>
  buildPayment({
    paymentRequired,
    maxAmount: '0.25',
    accountOn: ({ family }) => (family === 'solana' ? us.publicKey.toBase58() : account),
    plugins: [evm, solana],
    rpc: node(),
    signal: AbortSignal.timeout(10_000),
    nowMs,
    ...change,
  })

t.test('on Base it is one authorisation of the offer, good for its time only', async (t) => {
  const built = await build(offerOf(onBase))
  if (!built.ok) return t.fail(built.message)
  const { decoded, describe, assemble, validBeforeMs } = built.payment
  t.match(decoded, { kind: 'payment', chain: 'base', isOpaque: false, signKind: 'evm-typed-data' })
  t.match(decoded.effects, [{ kind: 'transfer', amount: 250_000n, from: account, to: other }])
  t.match(describe, ['Pay for an offer that names api.example.com, as the agent sent it.', /Send 0.25 USDC/])
  t.equal(validBeforeMs, nowMs + 60_000)
  const { paymentHeader } = assemble(signEvm(decoded.signingBytes))
  const read = readPayment(paymentHeader)
  if (!read.ok) return t.fail(read.message)
  const { signature, authorization } = read.payment.payload as never as {
    signature: `0x${string}`
    authorization: object
  }
  t.match(authorization, {
    from: account,
    to: other,
    value: '250000',
    validBefore: String(nowMs / 1_000 + 60),
  })
  t.strictSame(read.payment.accepted, onBase)
  const domain = { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: usdc as `0x${string}` }
  const signer = await recoverTypedDataAddress({
    domain,
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message: authorization as never,
    signature,
  })
  t.equal(signer, account)
  t.throws(() => assemble(signEvm(Buffer.from('x'))), TypeError)
})

for (const scheme of ['exact', 'upto'] as const)
  t.test(`a payment by Permit2, scheme ${scheme}, is one transfer, and the gateway accepts it`, async (t) => {
    const extra = scheme === 'upto' ? uptoExtra : { ...onBase.extra, assetTransferMethod: 'permit2' }
    const entry = { ...onBase, scheme, extra }
    const built = await build(offerOf(entry))
    if (!built.ok) return t.fail(built.message)
    const { decoded, describe, assemble, validBeforeMs } = built.payment
    t.match(decoded, { kind: 'payment', isOpaque: false, signKind: 'evm-typed-data' })
    t.match(budgetSpends(decoded), [{ amount: 250_000n, recipient: other }], 'the most counts')
    t.equal(validBeforeMs, nowMs + 61_000, 'the second of the deadline is included')
    const words =
      scheme === 'upto' ? /Send at most 0.25 USDC to .*, submitted by 0x7099/ : /Send 0.25 USDC to/
    t.match(describe.at(-1), words)
    const read = readPayment(assemble(signEvm(decoded.signingBytes)).paymentHeader)
    if (!read.ok) return t.fail(read.message)
    const check = createEvmCheck({
      network: 'eip155:8453',
      assets: builtInAssets,
      clock: { now: () => nowMs },
      facilitators: new Set([facilitator.toLowerCase()]),
    })
    t.match(check(read.payment, entry as never), {
      ok: true,
      identity: { payer: account, amountAtomic: 250_000n, payTo: other },
    })
  })

for (const required of [true, false])
  t.test(
    `what else is in an offer stops no payment; an id is sent where one is ${required ? 'required' : 'possible'}`,
    async (t) => {
      const offer = {
        ...offerOf(
          { ...onBase, scheme: 'upto' },
          { ...onBase, extra: undefined },
          { ...onBase, maxTimeoutSeconds: 31_536_000, extra: { ...onBase.extra, spender: other } },
        ),
        extensions: {
          eip2612GasSponsoring: { info: { required: true }, schema: {} },
          'payment-identifier': { info: { required }, schema: {} },
        },
      }
      const built = await build(offer)
      if (!built.ok) return t.fail(built.message)
      t.equal(built.payment.validBeforeMs, nowMs + 3_600_000, 'an hour at most is signed')
      const { paymentHeader } = built.payment.assemble(signEvm(built.payment.decoded.signingBytes))
      const { extensions } = JSON.parse(Buffer.from(paymentHeader, 'base64').toString())
      t.strictSame(Object.keys(extensions), ['payment-identifier'])
      t.match(extensions['payment-identifier'], { info: { required, id: /^[\w-]{16,128}$/ }, schema: {} })
    },
  )

t.test('on Solana the gateway of the seller takes it, and the fee is not ours', async (t) => {
  for (const memo of ['order 7', undefined, 'm'.repeat(256)]) {
    const entry = { ...onSolana, extra: { feePayer, ...(memo !== undefined && { memo }) } }
    const built = await build(encodeHeader(offerOf(entry)), { network: mainnet })
    if (!built.ok) return t.fail(built.message)
    const { decoded, assemble } = built.payment
    t.match(decoded, { kind: 'payment', isOpaque: false, fee: { payer: feePayer }, warnings: { length: 0 } })
    t.match(budgetSpends(decoded), [{ amount: 250_000n, recipient: payee.toBase58() }])
    t.match(decoded.plainWords[0], `Send 0.25 USDC to ${payee.toBase58()} (token account`)
    const read = readPayment(assemble(signSolana(decoded.signingBytes)).paymentHeader)
    if (!read.ok) return t.fail(read.message)
    const rules = solanaRules({ network: mainnet, feePayers: [feePayer], assets: builtInAssets })
    t.match(checkSolanaPayment(read.payment, entry as never, rules), { ok: true })
    const bytes = Buffer.from(read.payment.payload['transaction'] as string, 'base64')
    t.equal(
      VersionedTransaction.deserialize(bytes).message.recentBlockhash,
      stranger,
      "the node's block hash",
    )
  }
})

t.test('an offer that is not understood exactly is not paid', async (t) => {
  const bad: [string, unknown, Partial<BuildPaymentRequest>?][] = [
    ['above the cap', offerOf({ ...onBase, amount: '250001' })],
    ['another asset', offerOf({ ...onBase, asset: other })],
    ['a false domain', offerOf({ ...onBase, extra: { name: 'USDC', version: '2' } })],
    ['an unknown method', offerOf({ ...onBase, extra: { ...onBase.extra, assetTransferMethod: 'erc7710' } })],
    ['at most, by an unnamed account', offerOf({ ...onBase, scheme: 'upto' })],
    ['at most, above the cap', offerOf({ ...onBase, scheme: 'upto', extra: uptoExtra, amount: '250001' })],
    ['at most, on Solana', offerOf({ ...onSolana, scheme: 'upto' })],
    ['to ourselves', offerOf({ ...onBase, payTo: account })],
    ['to the token', offerOf({ ...onBase, payTo: usdc })],
    ['to nobody', offerOf({ ...onBase, payTo: `0x${'0'.repeat(40)}` })],
    ['an amount with an exponent', offerOf({ ...onBase, amount: '1e3' })],
    ['version 1', { ...offerOf(onBase), x402Version: 1 }],
    ['another origin', offerOf(onBase), { url: new URL('https://evil.example/') }],
    ['no account', offerOf(onBase), { accountOn: () => undefined }],
    ['another network', offerOf(onBase), { network: mainnet }],
    ['a cap with an exponent', offerOf(onBase), { maxAmount: '1e9' }],
    ['a cap that is none', offerOf(onBase), { maxAmount: Number.NaN }],
    ['ourselves as fee payer', offerOf({ ...onSolana, extra: { feePayer: us.publicKey.toBase58() } })],
    ['a memo that hides', offerOf({ ...onSolana, extra: { feePayer, memo: 'a\u202eb' } })],
    ['no node', offerOf(onSolana), { rpc: () => undefined }],
    [
      'a node that fails',
      offerOf(onSolana),
      { rpc: node({ genesisHash: async () => Promise.reject(new Error('no')) }) },
    ],
    ['a node of another chain', offerOf(onSolana), { rpc: node({ genesisHash: async () => stranger }) }],
    [
      'too little money',
      offerOf(onSolana),
      { rpc: node({}, { [ata(us.publicKey).toBase58()]: tokenAccount(us.publicKey, 1n) }) },
    ],
    [
      'a payee without an account',
      offerOf(onSolana),
      { rpc: node({}, { [ata(payee).toBase58()]: mintAccount }) },
    ],
    [
      'a payee that is a token account',
      offerOf(onSolana),
      { rpc: node({}, { [payee.toBase58()]: mintAccount }) },
    ],
    ['nothing', undefined],
    ['text', 'e30='],
  ]
  for (const [why, offer, change] of bad) t.match(await build(offer, change), { ok: false }, why)
})

t.test('no offer at all makes more than one transfer up to the cap', async (t) => {
  const anything = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(account, other, usdc, '1', '250000', 60))
  let paid = 0
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(onBase, onSolana),
      fc.constantFrom('scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra'),
      anything,
      async (entry, field, value) => {
        const built = await build(offerOf({ ...entry, [field]: value }))
        if (!built.ok) return true
        paid++
        const { effects, from } = built.payment.decoded
        const transfers = effects.filter((effect) => effect.kind !== 'note')
        const [only] = transfers
        return (
          transfers.length === 1 && only?.kind === 'transfer' && only.from === from && only.amount <= 250_000n
        )
      },
    ),
    { numRuns: 500, examples: [[onBase, 'amount', '1']] },
  )
  t.ok(paid > 0, `${paid} were paid`)
})

t.test(
  'an entry above max_amount, of an unknown flow or on a silent chain is passed over for one that can be paid',
  async (t) => {
    const dear = { ...onBase, amount: '250001' }
    const escrowed = { ...onBase, extra: { ...onBase.extra, paymentFlow: 'escrow' } }
    for (const accepts of [
      [dear, onBase],
      [escrowed, onBase],
    ]) {
      const built = await build(offerOf(...accepts))
      t.match(built, { ok: true, payment: { amountAtomic: 250_000n, network: 'eip155:8453' } })
    }
    const silent = { rpc: node({ genesisHash: () => Promise.reject(new Error('away')) }) }
    t.match(await build(offerOf(onSolana, onBase), silent), { ok: true, payment: { network: 'eip155:8453' } })

    t.match(await build(offerOf(dear)), { ok: false, code: 'BUDGET_EXCEEDED_TX' })
    t.match(await build(offerOf(escrowed)), { ok: false, code: 'VALIDATION_ERROR', message: /payment flow/ })
    t.match(await build(offerOf(onSolana), silent), { ok: false, code: 'CHAIN_UNAVAILABLE' })
    t.match(await build(offerOf(onBase), { maxAmount: '0.00000001' }), { code: 'VALIDATION_ERROR' })
  },
)
