import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'

const program = fileURLToPath(new URL('./fixtures/holder.ts', import.meta.url))

t.test(
  'what a killed process had is free for the next one at once, and what one has that stands still is not',
  { skip: process.platform !== 'linux' && 'Linux says which process has ended' },
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const { ledger, leases, close } = await openSqlite({ path, clock: systemClock, log: silentLog })
    t.teardown(() => close())
    const child = fork(program, [path, 'settle:a', 'k1', '60000'], { execArgv: [] })
    t.teardown(() => child.kill('SIGKILL'))
    t.match(await once(child, 'message'), [{ lease: Number, won: true }])
    const mine = (await leases.take('process:b', 60_000))!
    t.equal(await leases.take('settle:a', 60_000), undefined, 'it lives')
    child.kill('SIGSTOP')
    t.equal(await leases.take('settle:a', 60_000), undefined, 'it stands still, and may go on')
    t.equal(await ledger.adopt(mine, ['claimed'], 10), 0)
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
    t.ok(await leases.take('settle:a', 60_000), 'nobody has it any more')
    t.equal(await ledger.adopt(mine, ['claimed'], 10), 1, 'nor works on its payments')
    t.equal(await leases.take('settle:a', 60_000), undefined, 'now it is ours')
  },
)
