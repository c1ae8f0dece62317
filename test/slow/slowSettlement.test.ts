import t, { type Test } from 'tap'
import { newBuyer, present } from '../e2e/helpers/buyers.ts'
import { startChains } from '../e2e/helpers/chains.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { startReferenceFacilitator } from '../e2e/helpers/facilitator.ts'
import { startProduct } from '../e2e/helpers/product.ts'
import { startFaultyRpc } from '../helpers/localnet/startFaultyRpc.ts'

const chains = await startChains(t)
const [evm] = chains.both

/** Looks of the recovery that are counted: after 2, 4, 8 and 16 seconds. */
const polls = 4
/** What one look asks: chain, block, balance, receipt, nonce, and the bytes once more. */
const callsALook = 7
/** What closing may ask. */
const atTheEnd = 12

/** Sells one call whose transaction is in no block for longer than any client waits, and counts what the node is asked. */
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
  await rpc.whenCalled('eth_call', polls)
  t.ok(rpc.calls() <= polls * callsALook, `${rpc.calls()} calls in ${polls} looks`)
  t.equal((await present(url, payment)).status, 503, 'still open')

  await evm.release()
  await chains.evm.mine(2)
  const last = await eventually(async () => {
    const response = await present(url, payment)
    return response.status === 503 ? undefined : response
  })
  t.equal(last.status, 200, last.text)
  t.equal((await evm.transfersTo(product.payTo(evm))).length, 1, 'one transfer')
  rpc.resetCounters()
  await product.tollgate.close()
  t.ok(rpc.calls() <= atTheEnd)
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
