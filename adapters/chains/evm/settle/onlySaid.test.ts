import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { createSettlingAccount } from './settlingAccount.ts'

const fees = { maxFeePerGas: 2n, maxPriorityFeePerGas: 1n }

t.test('numbers that a node has said again and again, and nobody has used, are filled soon', async (t) => {
  for (const isReorganised of [false, true]) {
    let next = 9
    let sent = 0
    const rpc = {
      async call(method: string) {
        if (method === 'eth_sendRawTransaction') sent++
        return `0x${next.toString(16)}`
      },
    } as Rpc
    const account = createSettlingAccount({
      ...{
        network: 'eip155:84532',
        privateKey: `0x${'11'.repeat(32)}`,
        rpc,
        log,
        currentFees: async () => fees,
      },
      ...{ maxGas: 300_000, storeTimeoutMs: 1_000, maxFeePerGasWei: 2n, sharedKeyMs: 100, strandedMs: 6_000 },
    })
    t.teardown(() => account.close())
    // The books know of 5.
    await account.adopt(
      [],
      () => true,
      async () => new Set([4, 5]),
    )
    await account.lookForOthers()
    t.equal(account.isShared, false)
    const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
    const { attempt } = await account.sign(call, 300_000, fees, [async () => true])
    t.equal(attempt!.sequence, '9')
    // Payments of the books, which a reorganisation took back, are the recovery's to send.
    next = isReorganised ? 4 : 6
    await sleep(110)
    t.equal(account.hasGaps, true)
    await account.repair()
    await sleep(110)
    const before = sent
    await account.repair()
    // Three of nothing, and the payment behind them.
    t.equal(sent - before, isReorganised ? 1 : 4)
  }
})
