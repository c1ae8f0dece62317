import { mock } from 'node:test'
import t from 'tap'
import { startProgress } from './callTool.ts'

const asked = { approvalId: 'apr_x', expiresAtMs: Date.UTC(2026, 10, 21, 10) }

t.beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }))
t.afterEach(() => mock.timers.reset())

t.test(
  'progress is told at once and then every five seconds, each time higher, until it stops',
  async (t) => {
    const notified: number[] = []
    const progress = startProgress(120, (seconds, total, message) => {
      notified.push(seconds)
      t.strictSame(
        [total, message.includes('apr_x'), message.includes('2026-11-21T10:00')],
        [120, true, true],
      )
    })
    mock.timers.tick(60_000)
    t.strictSame(notified, [], 'nothing before anybody is asked')
    progress.begin(asked)
    t.strictSame(notified, [0])
    progress.begin(asked)
    t.strictSame(notified, [0], 'one question, one clock')
    mock.timers.tick(15_000)
    t.strictSame(notified, [0, 5, 10, 15])
    progress.stop()
    mock.timers.tick(60_000)
    t.equal(notified.length, 4)
  },
)

t.test('who does not wait hears nothing', async (t) => {
  const progress = startProgress(0, () => t.fail('nobody waits'))
  progress.begin(asked)
  mock.timers.tick(60_000)
  progress.stop()
})
