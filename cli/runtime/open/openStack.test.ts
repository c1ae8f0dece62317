import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { runningJobs } from '../../../core/jobs/job.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { readConfig } from '../readConfig.ts'
import { openStack } from './openStack.ts'

t.test('each job of a process rests between two runs', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-stack-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const file = join(dir, 'tollgate.yaml')
  writeFileSync(
    file,
    JSON.stringify({
      publicUrl: 'http://127.0.0.1:1',
      storage: { path: './tollgate.db' },
      secretFile: './secret',
      networks: {
        'eip155:84532': {
          rpcUrls: ['http://127.0.0.1:9'],
          facilitator: { privateKey: `0x${'11'.repeat(32)}` },
        },
      },
    }),
  )
  const { config } = await readConfig(file, {})
  const stack = await openStack(config, { env: {}, log: silentLog, runsJobs: true })
  t.teardown(() => stack.close())
  for (const job of runningJobs) {
    await job.runNow()
    const { lastRunAtMs } = job
    await sleep(20)
    t.equal(job.lastRunAtMs, lastRunAtMs, job.name)
  }
})
