import { Keypair } from '@solana/web3.js'
import t from 'tap'
import type { Address } from 'viem'
import { tokenProgramAddress } from '../../core/solana/addresses.ts'
import { sendSolana, sendUsdc, transferInstruction } from '../helpers/localnet/sendToken.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { type Chain, startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const product = await startProduct(t, {}, chains)
const { payTo, store, url, tollgate } = product
const { purchases } = tollgate.stack.store

async function api(method: string, path: string, body?: object) {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${store.apiKey}` },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  return { status: response.status, body: (await response.json()) as any }
}

const open = async (amount: string) =>
  (await api('POST', '/api/v1/payments', { amount, title: 'A chair' })).body.data
const confirm = (id: string, body: object = {}) => api('POST', `/api/v1/payments/${id}/confirm`, body)
/** Asks until something is known, as 202 tells a seller to. */
const confirmed = (id: string, body: object = {}) =>
  eventually(async () => {
    const response = await confirm(id, body)
    return response.status === 202 ? undefined : response
  })

/** A wallet that knows nothing of x402 sends USDC to the seller. */
async function send(chain: Chain, amountAtomic: bigint): Promise<string> {
  const { evm, solana } = chains
  if (chain.name === 'evm') {
    const from = `0x${Keypair.generate().publicKey.toBuffer().subarray(0, 20).toString('hex')}` as Address
    await evm.mintUsdc(from, amountAtomic)
    return sendUsdc(evm, from, payTo(chain) as Address, amountAtomic)
  }
  const from = Keypair.generate()
  const transfer = { from: from.publicKey.toBase58(), to: payTo(chain), amountAtomic }
  solana.mintUsdc(transfer.from, amountAtomic)
  return sendSolana(solana, [from], [transferInstruction(solana, tokenProgramAddress.token, transfer)])
}

for (const [i, chain] of chains.both.entries()) {
  const amount = (cents: number) => `0.${i + 1}${cents}`
  const atomic = (cents: number) => BigInt(i + 1) * 100_000n + BigInt(cents) * 1_000n
  const chainName = chain.name === 'evm' ? 'base' : 'solana'

  t.test(`a transfer on ${chain.name} pays a session, named or looked for, and only one`, async (t) => {
    const [one, two] = [await open(amount(11)), await open(amount(12))]
    const paid = await send(chain, atomic(11))
    const response = await confirmed(one.id, { txHash: paid, chain: chainName })
    t.match(response, {
      status: 200,
      body: { data: { status: 'confirmed', txHash: paid, chain: chainName } },
    })
    const other = await send(chain, atomic(12))
    t.match(await confirmed(two.id), { status: 200, body: { data: { status: 'confirmed', txHash: other } } })
    const same = await open(amount(11))
    // Used already, or, where the chain dates it before this session, from before it.
    t.match((await confirm(same.id, { txHash: paid })).status, /^(?:409|422)$/)
    t.equal((await confirm(same.id)).status, 202)
    const less = await send(chain, atomic(11) - 1n)
    t.match(await confirmed(same.id, { txHash: less }), { status: 422 })
    const { purchaseId } = response.body.data
    t.match(await purchases.find(purchaseId), { status: 'delivered', amountAtomic: atomic(11) })
  })

  t.test(`an x402 payment on ${chain.name} is not taken for a transfer`, async (t) => {
    const link = await product.addLink(`sold-${chain.name}`, amount(21))
    const buyer = await newBuyer(chains, chain)
    const session = await open(amount(21))
    const bought = await present(link, await buyer.sign(link))
    t.equal(bought.status, 200)
    const { transaction } = bought.receipt!
    t.match(await confirmed(session.id, { txHash: transaction }), {
      status: 409,
      body: { error: { code: 'TRANSACTION_ALREADY_USED' } },
    })
    t.equal((await confirm(session.id)).status, 202)
  })

  t.test(`a transfer on ${chain.name} that lands for a canceled session is owed back`, async (t) => {
    const session = await open(amount(31))
    await api('POST', `/api/v1/payments/${session.id}/cancel`)
    const late = await send(chain, atomic(31))
    const { status, body } = await confirmed(session.id, { txHash: late })
    t.match([status, body.data], [200, { status: 'canceled', refundDue: { txHash: late } }])
    t.match(await purchases.find(body.data.refundDue.purchaseId), { status: 'refund_due' })
  })
}

t.test('the books are sound, and every transfer is on its chain', async (t) => {
  t.match(await purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  const findings = await product.doctor()
  t.match(
    findings.filter(({ subject }) => subject === 'transfers'),
    [{ ok: true, message: /^8 transfers are on chain$/ }],
  )
})
