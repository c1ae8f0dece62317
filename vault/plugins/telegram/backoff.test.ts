import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { createBackoff } from './outbox.ts'

t.test(
  'however long the Bot API wants to be left alone, it is left alone, and no longer than timers count',
  async (t) => {
    for (const retryAfterMs of [60_000, 2 ** 31, 1e13, Number.POSITIVE_INFINITY]) {
      const stop = new AbortController()
      let isOver = false
      const waited = createBackoff(1, 2)
        .wait({ code: 429, message: '', retryAfterMs, isFinal: false }, stop.signal)
        .then(() => (isOver = true))
      await delay(20)
      t.notOk(isOver, `${retryAfterMs} ms`)
      stop.abort()
      await waited
      await turn()
      t.ok(isOver, 'the end of the vault ends the wait')
    }
  },
)
