import t from 'tap'
import { createReadiness } from './readiness.ts'

const noneWaits = { waiting: new Set<never>() }

t.test('a reason names its network once, whether its settler has named it or not', async (t) => {
  const network = 'eip155:84532'
  const diagnose = async () => [`${network}: gas costs too much.`, 'A key is passed over.']
  const chains = { missing: [], settlers: [{ network, diagnose }] }
  const store = { health: async () => [], leases: { holderOf: async () => undefined } }
  const readiness = createReadiness({
    store: store as never,
    chains: chains as never,
    starts: noneWaits,
    isSettledElsewhere: false,
  })
  t.strictSame((await readiness())[1]!.problems, [
    `${network}: gas costs too much.`,
    `${network}: A key is passed over.`,
  ])
})

t.test('who has one key of several settles, whatever the list is called', async (t) => {
  const network = 'eip155:84532'
  const settler = { network, id: 'evm:a+b', keys: [{ id: 'evm:a' }, { id: 'evm:b' }], isExclusive: true }
  const chains = { missing: [], settlers: [{ ...settler, diagnose: async () => [] }] }
  const problemsWith = async (held: string) => {
    const holderOf = async (name: string) => (name === held ? { id: 1, name } : undefined)
    const store = { health: async () => [], leases: { holderOf } }
    const settled = { starts: noneWaits, isSettledElsewhere: true }
    const parts = { store: store as never, chains: chains as never, ...settled }
    return (await createReadiness(parts)())[1]!.problems
  }
  for (const held of ['evm:a', 'evm:b', 'evm:a+b']) t.strictSame(await problemsWith(`settle:${held}`), [])
  t.match(await problemsWith('settle:evm:c'), [/no process has the settling key/])
})

t.test('a settler that could not start yet is no part that is ready, whatever its nodes say', async (t) => {
  const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
  const chains = { missing: [], settlers: [{ network, diagnose: async () => [] }] }
  const waiting = new Set([network] as const)
  const readiness = createReadiness({
    store: { health: async () => [] } as never,
    chains: chains as never,
    starts: { waiting },
    isSettledElsewhere: false,
  })
  t.match((await readiness())[1]!.problems, [/^solana:\S+: .* paid calls are refused/])
  waiting.delete(network)
  t.strictSame((await readiness())[1]!.problems, [])
})

t.test(
  'from the first sale that is refused on, the service is not ready, whatever was seen before',
  async (t) => {
    const network = 'eip155:84532'
    let refusal: { message: string } | undefined
    let requestCount = 0
    const diagnose = async () => {
      requestCount++
      return []
    }
    const chains = { missing: [], settlers: [{ network, diagnose, refusesAll: () => refusal }] }
    const store = { health: async () => [], leases: { holderOf: async () => undefined } }
    const readiness = createReadiness({
      store: store as never,
      chains: chains as never,
      starts: noneWaits,
      isSettledElsewhere: false,
    })
    t.strictSame((await readiness())[1]!.problems, [])
    refusal = { message: 'Another installation signs with the key.' }
    t.strictSame((await readiness())[1]!.problems, [
      `${network}: every payment is refused now. Another installation signs with the key.`,
    ])
    refusal = undefined
    t.strictSame((await readiness())[1]!.problems, [], 'and ready again with the first that is not')
    t.equal(requestCount, 1, 'the chain was not asked for it')
  },
)
