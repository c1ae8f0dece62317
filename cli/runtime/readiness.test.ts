import t from 'tap'
import { createReadiness } from './readiness.ts'

t.test('a reason names its network once, whether its settler has named it or not', async (t) => {
  const network = 'eip155:84532'
  const diagnose = async () => [`${network}: gas costs too much.`, 'A key is passed over.']
  const chains = { missing: [], settlers: [{ network, diagnose }] }
  const store = { health: async () => [], leases: { holderOf: async () => undefined } }
  const readiness = createReadiness({
    ...{ store: store as never, chains: chains as never, isSettledElsewhere: false },
  })
  t.strictSame((await readiness())[1]!.problems, [
    `${network}: gas costs too much.`,
    `${network}: A key is passed over.`,
  ])
})
