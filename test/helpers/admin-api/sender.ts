import { createEgress } from '../../../adapters/egress/egress.ts'
import { createSealer } from '../../../adapters/secrets/sealer.ts'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { deliverWebhooks } from '../../../admin-api/webhooks/deliverWebhooks.ts'
import { machineClock, systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'

// A process that sends what the outbox of a database holds, and kills itself at a step of that: composed, spread, taken,
// answered or noted. Arguments: path, secret in hex, step ('' for none), by how much its store's clock is ahead, in ms.
const [path, secret, step, aheadMs] = process.argv.slice(2)
const storeClock = { now: () => machineClock.now() + Number(aheadMs) }
const store = await openSqlite({ path: path!, clock: systemClock, storeClock, log: silentLog })
const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })

/** A kill -9 takes the whole process, its writer too. */
const dieAt = (reached: string) => {
  if (reached === step) process.kill(process.pid, 'SIGKILL')
}

// Its pauses keep no process running; a gateway has its listeners for that.
setInterval(() => {}, 60_000)

const { webhooks, purchases, sessions, links } = store
deliverWebhooks({
  purchases,
  sessions,
  links,
  clock: systemClock,
  log: silentLog,
  sealer: createSealer(Buffer.from(secret!, 'hex')),
  egress: {
    ...egress,
    async request(request) {
      const response = await egress.request(request)
      dieAt('answered')
      return response
    },
  },
  webhooks: {
    ...webhooks,
    async fanOut(events, atMs) {
      if (events.length > 0) dieAt('composed')
      await webhooks.fanOut(events, atMs)
      if (events.length > 0) dieAt('spread')
    },
    async take(options) {
      const taken = await webhooks.take(options)
      if (taken.length > 0) dieAt('taken')
      return taken
    },
    async note(outcome) {
      const isNoted = await webhooks.note(outcome)
      dieAt('noted')
      return isNoted
    },
  },
})
