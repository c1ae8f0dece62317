import { base58 } from '@scure/base'
import { Keypair, PublicKey } from '@solana/web3.js'
import t from 'tap'
import { LIGHTHOUSE_PROGRAM } from '../../localnet/solana/addresses.ts'
import { edit, instruction, transactionOf } from '../helpers/chains/solana/payments.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { type Buyer, newBuyer, present, read } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'
import { openSession, paySessionWith, signSession } from './helpers/sessions.ts'

const chains = await startChains(t)
const product = await startProduct(t, {}, chains)
const { payTo, store, tollgate, url } = product
const solana = chains.both[1]

/** The payment as current Phantom makes it: three assertions before the transfer, one in the end, and a price of its own. */
function asPhantom(payment: string, buyer: Buyer): { readonly v2: string; readonly bare: string } {
  const signed = JSON.parse(atob(payment))
  const payer = Keypair.fromSecretKey(base58.decode(buyer.privateKey))
  const changed = edit(signed, payer, (draft) => {
    const accounts = [draft.feePayer, new PublicKey(buyer.address)]
    const guard = (size: number) =>
      instruction(
        LIGHTHOUSE_PROGRAM,
        new Uint8Array(size).fill(9),
        accounts.map((pubkey) => ({ pubkey, isSigner: false, isWritable: false })),
      )
    const unitPrice = draft.instructions[1]!
    unitPrice.data.writeBigUInt64LE(100_000n, 1)
    draft.instructions.splice(2, 0, guard(17), guard(52), guard(16))
    draft.instructions.push(guard(27))
  })
  const bare = transactionOf(changed)
  return { bare, v2: btoa(JSON.stringify({ ...signed, payload: { transaction: bare } })) }
}

t.test('Phantom pays a link, in an envelope and by a bare transaction', async (t) => {
  const buyer = await newBuyer(chains, solana)
  const link = await product.addLink('guarded')
  const before = await solana.balance(payTo(solana))
  const first = await present(link, asPhantom(await buyer.sign(link), buyer).v2)
  t.equal(first.status, 200, first.text)
  t.match(first.receipt, { success: true, payer: buyer.address, amount: '10000' })
  const { bare } = asPhantom(await buyer.sign(link), buyer)
  const second = await read(await fetch(link, { headers: { 'x-payment': bare } }))
  t.equal(second.status, 200, second.text)
  t.equal((await solana.balance(payTo(solana))) - before, 20_000n)
})

t.test('Phantom pays a session, and it is confirmed', async (t) => {
  const buyer = await newBuyer(chains, solana)
  const session = await openSession(url, store.apiKey, { amount: '0.75', title: 'A chair' })
  const before = await solana.balance(payTo(solana))
  const paid = await paySessionWith(session, asPhantom(await signSession(session, buyer), buyer).v2)
  t.equal(paid.status, 200, paid.text)
  t.match(paid.body.data, { status: 'confirmed', buyerWallet: buyer.address })
  t.equal((await solana.balance(payTo(solana))) - before, 750_000n)
})

t.test('the books agree with the chain', async (t) => {
  t.match(await checkedLedger(tollgate.stack.store.purchases), { unresolvedPayments: 0, purchases: 3 })
  const wrong = (await product.doctor()).filter(({ ok }) => !ok)
  t.strictSame(wrong, [])
})
