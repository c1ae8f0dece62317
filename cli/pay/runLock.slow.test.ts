import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type Container, hasContainers, startContainer } from '../../test/helpers/vault/containers.ts'

/** Each takes over from one that took over itself, twice after a pause; a takeover waits for some ten seconds. */
const ROUNDS = 6
/**
 * Ten missed one-second heartbeats, plus the start of a process on a machine that is busy with other tests.
 */
const TAKEOVER_MS = 25_000

/** Takes the lock of one command as soon as it is free, and reports every 100 ms that it holds it. */
const holder = (dir: string): string => `
  const { lockCommand } = await import(${JSON.stringify(import.meta.resolve('./paymentFiles.ts'))})
  const { setTimeout: wait } = await import('node:timers/promises')
  let lock
  while ((lock = await lockCommand(${JSON.stringify(dir)}, 'a')) === undefined) await wait(100)
  while (lock.isOurs()) {
    console.log('has it')
    await wait(100)
  }
  console.log('lost')
  setInterval(() => {}, 1_000)
`

async function hasIt(container: Container, withinMs: number): Promise<boolean> {
  for (const endMs = performance.now() + withinMs; performance.now() < endMs; await wait(50))
    if (container.lines.length > 0) return true
  return false
}

t.test(
  'of runs of one command in two containers, killed or paused in turn, one has it',
  { skip: !hasContainers && 'this machine makes no containers' },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'pay-containers-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const all: Container[] = []
    t.teardown(() => Promise.all(all.map((one) => one.kill())))
    const start = (): Container => {
      const container = startContainer(folder, `boot-${all.length}`, holder(join(folder, 'payments')))
      all.push(container)
      return container
    }
    let live = start()
    t.ok(await hasIt(live, TAKEOVER_MS), 'the first one has it')
    for (let round = 0; round < ROUNDS; round++) {
      const next = start()
      await wait(1_500)
      t.strictSame(next.lines, [], `round ${round}: the second one waits for the first`)
      const isPaused = round % 3 === 2
      if (isPaused) live.pause()
      else await live.kill()
      const endedAtMs = performance.now()
      t.ok(await hasIt(next, TAKEOVER_MS), `round ${round}: the successor has it`)
      t.ok(next.lines[0]!.atMs > endedAtMs, 'not before the other ended')
      if (isPaused) {
        live.resume()
        while (live.lines.at(-1)?.text !== 'lost') await wait(20)
        const result = live.lines.filter(({ atMs }) => atMs > next.lines[0]!.atMs)
        t.ok(
          result.filter(({ text }) => text === 'has it').length <= 1,
          'the paused one learns that it lost it',
        )
        await live.kill()
      }
      live = next
    }
  },
)
