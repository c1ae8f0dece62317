import t, { type Test } from 'tap'
import { startFaultyRpc } from '../../adapters/chains/local/startFaultyRpc.ts'
import { newBuyer, present } from '../e2e/helpers/buyers.ts'
import { startChains } from '../e2e/helpers/chains.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { startReferenceFacilitator } from '../e2e/helpers/facilitator.ts'
import { startProduct } from '../e2e/helpers/product.ts'

const chains = await startChains(t)
const [evm] = chains.both

/** Rounds of the reconciler that are counted; it makes one every two seconds. */
const rounds = 4
/** What a thorough look-up may ask beside the payment's nonce; in the time of these rounds there is one, two at most. */
const thorough = 12

/** Sells one call whose transaction is in no block for longer than anybody waits, and counts what the node is asked. */
async function holdsWhileNothingIsMined(t: Test, settings: object): Promise<void> {
  const rpc = await startFaultyRpc(chains.evm.rpcUrl)
  t.teardown(() => rpc.close())
  const own = { rpcUrls: [rpc.url], settleTimeoutMs: 700, ...settings }
  const product = await startProduct(t, { evm: own }, chains)
  const url = await product.addLink('slow')
  const buyer = await newBuyer(chains, evm)
  const payment = await buyer.sign(url)
  await evm.hold()
  const first = await present(url, payment)
  t.match(first, { status: 503, body: { error: { code: 'settlement_pending' } } })

  rpc.resetCounters()
  await rpc.whenCalled('eth_call', rounds)
  t.ok(rpc.calls() <= rounds + thorough, `${rpc.calls()} calls in ${rounds} rounds`)
  t.equal((await present(url, payment)).status, 503, 'still open')

  await evm.release()
  await chains.evm.mine(2)
  const last = await eventually(async () => {
    const answer = await present(url, payment)
    return answer.status === 503 ? undefined : answer
  })
  t.equal(last.status, 200, last.text)
  t.equal((await evm.transfersTo(product.payTo(evm))).length, 1, 'one transfer')
  rpc.resetCounters()
  await product.tollgate.close()
  t.ok(rpc.calls() <= thorough)
}

t.test('a settlement that is not mined costs less than a call a second', async (t) => {
  await holdsWhileNothingIsMined(t, {})
})

t.test('with confirmations to wait for as well', async (t) => {
  await holdsWhileNothingIsMined(t, { confirmations: 3 })
})

t.test('by a remote facilitator as well', async (t) => {
  const facilitator = await startReferenceFacilitator(t, chains)
  await holdsWhileNothingIsMined(t, { facilitator: { url: facilitator.url } })
})
