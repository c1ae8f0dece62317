import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { change, claimed, sampleClaim, sampleResponse } from '../samples.ts'

const hasStrace = spawnSync('strace', ['-V']).status === 0

t.test(
  'a flushed write is on disk when it is answered, a visible one within a second or with the next flushed one',
  { skip: !hasStrace && 'needs strace' },
  async (t) => {
    const folder = t.testdir()
    const trace = join(folder, 'trace')
    const program = fileURLToPath(new URL('./fixtures/flusher.ts', import.meta.url))
    const watched = ['-f', '-qq', '-y', '-e', 'trace=fsync,fdatasync,write', '-o', trace]
    const child = spawnSync('strace', [...watched, process.execPath, program, join(folder, 'tollgate.db')])
    t.equal(child.status, 0, `${child.stderr}`)
    const flushes: Record<string, boolean> = {}
    let step = 'start'
    for (const line of readFileSync(trace, 'utf8').split('\n')) {
      const begun = /write\(1<.*"begin (.*)\\n"/.exec(line)?.[1]
      if (begun !== undefined) flushes[(step = begun)] = false
      else if (/sync\(\d+<.*tollgate\.db-wal>/.test(line)) flushes[step] = true
    }
    t.strictSame(flushes, {
      start: true,
      'flushed, before': true,
      visible: false,
      flushed: true,
      'visible, and a second': true,
      'visible, and the end': true,
      nothing: false,
    })
  },
)

t.test('large answers that many ask for hold up neither the event loop nor a write', async (t) => {
  const store = await openSqlite({ path: ':memory:', clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  const rows: number[] = []
  for (const name of ['k1', 'k2', 'k3', 'k4']) {
    const claim = sampleClaim(name)
    const row = await claimed(store, claim)
    const response = { ...sampleResponse, body: Buffer.alloc(20_000_000, name) }
    await store.ledger.apply(change(claim, row, 'claimed', 'delivered', { response }))
    rows.push(row)
  }
  await store.ledger.responseOf(0)
  const order: string[] = []
  const asked = rows.flatMap((row) =>
    Array.from({ length: 16 }, () => store.ledger.responseOf(row).then((response) => response!.body)),
  )
  const [bodies] = await Promise.all([
    Promise.all(asked).finally(() => order.push('answers')),
    claimed(store, sampleClaim('k5')).finally(() => order.push('claim')),
  ])
  t.strictSame(order, ['claim', 'answers'])
  t.equal(new Set(bodies).size, rows.length)
  t.ok(bodies.every((body) => body.length === 20_000_000))
})
