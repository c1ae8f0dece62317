import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { freePort } from './helpers/freePort.ts'
import { plainGateways } from './helpers/plainGateway.ts'

/** The status, or undefined where nothing listens. */
const statusOf = (url: string): Promise<number | undefined> =>
  fetch(url).then(
    ({ status }) => status,
    () => undefined,
  )

for (const workers of [1, 2]) {
  t.test(
    `${workers} process(es): no probe calls a gateway ready before its public port accepts calls`,
    async (t) => {
      const monitoring = await freePort()
      const { start, newPort } = await plainGateways(t, { workers }, { monitoring: { port: monitoring } })
      const port = await newPort()
      const started = start(port)
      while ((await statusOf(`http://127.0.0.1:${monitoring}/readyz`)) !== 200) await sleep(1)
      t.equal(await statusOf(`http://127.0.0.1:${port}/docs`), 200)
      await started
    },
  )
}
