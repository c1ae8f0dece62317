import t from 'tap'
import { silentLog } from '../../../core/ports/log.ts'
import { openLate } from './openChains.ts'

t.test('a network that opened is offered, also where its links could not be compiled at first', async (t) => {
  const network = 'eip155:84532' as const
  let missing = [network]
  const chains = {
    get missing() {
      return missing
    },
    async openMissing() {
      missing = []
      return [network]
    },
  }
  const notified: string[] = []
  const job = openLate(chains, silentLog, async () => {
    notified.push('opened')
    if (notified.length === 1) throw new Error('The database can not be used now.')
  })
  t.teardown(() => job.stop())
  await job.runNow()
  t.equal(job.lastError, 'The database can not be used now.')
  await job.runNow()
  t.equal(job.lastError, undefined)
  t.equal(notified.length, 2)
  await job.runNow()
  t.equal(notified.length, 2, 'and no more')
})
