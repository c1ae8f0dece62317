import t from 'tap'
import { encodeFunctionData, erc20Abi, parseAbi } from 'viem'
import { RpcUnreachable } from '../../../core/rpc/post.ts'
import type { Rpc } from '../../../core/rpc/rpc.ts'
import { MULTICALL3_ADDRESS, PERMIT2_ADDRESS } from '../../../localnet/evm/startLocalEvm.ts'
import { type SignedUpto, startPermitChain } from '../../../test/helpers/vault/permits.ts'
import { finalBlock, proveCharges } from './charges.ts'

const all = await startPermitChain(t)
const { chain, rpc, payer, payTo, facilitator, sign, charge, chargeTogether, finalize } = all
const byContract = { facilitator: MULTICALL3_ADDRESS }

const prove = async (...signed: SignedUpto[]) =>
  proveCharges(
    rpc,
    signed.map(({ open }) => open),
    await finalBlock(rpc),
  )

/** Sends from the payer's own account, which the node impersonates. */
async function asPayer(to: string, data: string): Promise<void> {
  await chain.fundEth(payer.address, 10n ** 18n)
  await chain.rpc('anvil_impersonateAccount', payer.address)
  await chain.send({ from: payer.address, to, data })
}

const transferTo = (to: string, amount: bigint) =>
  encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [to as never, amount] })

t.test('a charge is proved once it is final, with its amount and its transaction', async (t) => {
  const [one, two, never] = [await sign(), await sign({ most: 500n }), await sign()]
  const first = await charge(one, 300n)
  const second = await charge(two, 500n)
  t.strictSame(await prove(one, two, never), [undefined, undefined, undefined])
  await finalize()
  t.strictSame(await prove(one, two, never), [
    { charged: 300n, transaction: first },
    { charged: 500n, transaction: second },
    undefined,
  ])
})

t.test(
  'a charge that a reorganization removes proves nothing, and its permit can be charged again',
  async (t) => {
    const signed = await sign()
    await charge(signed, 10n)
    await chain.mine(3)
    t.strictSame(await prove(signed), [undefined])
    await chain.reorg(4)
    const again = await charge(signed, 900n)
    await finalize()
    t.strictSame(await prove(signed), [{ charged: 900n, transaction: again }])
  },
)

t.test('a nonce that the payer invalidates gives everything back', async (t) => {
  const signed = await sign()
  const nonce = BigInt(signed.open.claim.nonce)
  const abi = parseAbi(['function invalidateUnorderedNonces(uint256 wordPos, uint256 mask)'])
  const data = encodeFunctionData({ abi, args: [nonce >> 8n, 1n << (nonce & 0xffn)] })
  await asPayer(PERMIT2_ADDRESS, data)
  await finalize()
  t.strictSame(await prove(signed), [{ charged: 0n, transaction: null }])
})

t.test('another permit with the same nonce ends this one, which then costs nothing', async (t) => {
  const signed = await sign()
  const nonce = BigInt(signed.open.claim.nonce)
  await charge(await sign({ nonce, payTo: facilitator }), 700n)
  await finalize()
  t.strictSame(await prove(signed), [{ charged: 0n, transaction: null }])
})

t.test('other transfers to the payee never lower what a contract has charged', async (t) => {
  const signed = await sign({ ...byContract, most: 1_000n })
  const direct = await sign({ most: 50n })
  await charge(direct, 50n)
  await chargeTogether([[signed, 600n]])
  await asPayer(chain.usdcAddress, transferTo(payTo, 10n))
  await finalize()
  const [own, other] = await prove(signed, direct)
  t.strictSame(own, { charged: 610n, transaction: null }, 'the plain transfer may be part of the charge')
  t.match(other, { charged: 50n, transaction: /^0x/ })
})

t.test('two permits in one transaction each count with the sum, and with their most at most', async (t) => {
  const [one, two] = [await sign({ ...byContract, most: 1_000n }), await sign({ ...byContract, most: 150n })]
  await chargeTogether([
    [one, 200n],
    [two, 100n],
  ])
  await finalize()
  t.strictSame(await prove(one, two), [
    { charged: 300n, transaction: null },
    { charged: 150n, transaction: null },
  ])
})

t.test('a transaction that only names the nonce is no charge of it', async (t) => {
  const signed = await sign()
  const decoy = await sign({ nonce: BigInt(signed.open.claim.nonce), most: 5n })
  const hash = await charge(decoy, 5n)
  await finalize()
  const [proved] = await prove(signed)
  t.match(proved, { charged: 0n, transaction: null }, `${hash} charged the other permit`)
})

t.test('a permit that has expired unused gives everything back, one second after its deadline', async (t) => {
  const block = await chain.rpc<{ timestamp: string }>('eth_getBlockByNumber', 'latest', false)
  const validBefore = Number(block.timestamp) + 1_000
  const signed = await sign({ validBefore })
  const at = (seconds: number) => proveCharges(rpc, [signed.open], { number: 1, seconds })
  t.strictSame(await at(validBefore), [undefined])
  t.strictSame(await at(validBefore + 1), [{ charged: 0n, transaction: null }])
})

t.test('without a known start, only a call of the proxy proves a lower charge', async (t) => {
  const start = { sinceBlock: null }
  const [direct, byOther] = [await sign(start), await sign({ ...byContract, ...start })]
  const ahead = await sign({ ...byContract, sinceBlock: 1_000_000_000 })
  const hash = await charge(direct, 1n)
  await chargeTogether([
    [byOther, 2n],
    [ahead, 3n],
  ])
  await finalize()
  t.strictSame(await prove(direct, byOther, ahead), [
    { charged: 1n, transaction: hash },
    { charged: 1_000n, transaction: null },
    { charged: 1_000n, transaction: null },
  ])
})

t.test('an exact payment gives back only if it has expired unused', async (t) => {
  const { claim } = (await sign()).open
  const exact = {
    claim: { ...claim, facilitator: null, nonce: `0x${'7'.repeat(64)}`, validBefore: '2000000000' },
    sinceBlock: 0,
  }
  const final = await finalBlock(rpc)
  t.strictSame(await proveCharges(rpc, [exact], { ...final, seconds: 2_000_000_000 }), [undefined])
  t.strictSame(await proveCharges(rpc, [exact], { ...final, seconds: 2_000_000_001 }), [
    { charged: 0n, transaction: null },
  ])
})

t.test('a response of a wrong form proves nothing', async (t) => {
  const signed = await sign({ most: 1_000n })
  await charge(signed, 300n)
  const indirect = await sign({ ...byContract, most: 1_000n })
  await chargeTogether([[indirect, 400n]])
  await finalize()
  const final = await finalBlock(rpc)
  const open = [signed.open, indirect.open]
  t.match(await proveCharges(rpc, open, final), [{ charged: 300n }, { charged: 400n }])

  const garbage: unknown[] = [null, '0x', 'x', 7, {}, [null], [{}], { hash: 7 }, '0xzz', [{ topics: 'x' }]]
  const methods = ['eth_call', 'eth_getLogs', 'eth_getTransactionByHash', 'eth_getTransactionReceipt']
  for (const method of methods)
    for (const result of garbage) {
      const lying = answering(method, () => result)
      const proved = await proveCharges(lying, open, final)
      t.strictSame(proved, [undefined, undefined], `${method}: ${JSON.stringify(result)}`)
    }
  for (const block of [null, 'x', {}, { number: 1, timestamp: '0x1' }, { number: `0x${'f'.repeat(64)}` }])
    await t.rejects(finalBlock(answering('eth_getBlockByNumber', () => block)), RpcUnreachable)

  // Each field of an event of the right form is changed to another one of its form.
  const other = `0x${'1'.repeat(64)}`
  const changes: ((log: Record<string, unknown>) => object)[] = [
    (log) => ({ ...log, address: `0x${'1'.repeat(40)}` }),
    (log) => ({ ...log, topics: [(log['topics'] as string[])[0], other, other] }),
    (log) => ({ ...log, data: '0x' }),
    (log) => ({ ...log, blockNumber: '0x1' }),
    (log) => ({ ...log, transactionHash: other }),
    (log) => ({ ...log, removed: true }),
  ]
  for (const [i, change] of changes.entries()) {
    const lying = answering('eth_getLogs', (logs) => (logs as Record<string, unknown>[]).map(change))
    t.strictSame(await proveCharges(lying, open, final), [undefined, undefined], `change ${i}`)
  }
})

t.test('a node that refuses or does not respond proves nothing', async (t) => {
  const signed = await sign()
  await charge(signed, 1n)
  await finalize()
  const final = await finalBlock(rpc)
  const error = new RpcUnreachable('no response in time')
  const away: Rpc = {
    ...rpc,
    many: async (calls) => calls.map(() => ({ ok: false, error })),
  }
  t.strictSame(await proveCharges(away, [signed.open], final), [undefined])
})

/** The node, whose responses to one method are changed. */
function answering(wanted: string, change: (result: unknown) => unknown): Rpc {
  return {
    ...rpc,
    call: async (method, ...params) => {
      const result = await rpc.call(method, ...params)
      return method === wanted ? change(result) : result
    },
    many: async (calls) => {
      const responses = await rpc.many(calls)
      return responses.map((response, i) =>
        response.ok && calls[i]!.method === wanted ? { ok: true, result: change(response.result) } : response,
      )
    },
  }
}
