import type { Settler } from '../../core/ports/settler.ts'
import type { DataStore } from '../../core/ports/store.ts'
import type { OpenChains } from './openChains.ts'

/** What keeps the service from working, in words for the operator: the store, then each network. Empty when all is well. */
export async function readiness(
  store: Pick<DataStore, 'health'>,
  chains: OpenChains,
  diagnose = (settler: Settler): Promise<string[]> => settler.diagnose(),
): Promise<string[]> {
  const reports = await Promise.all([
    store.health(),
    ...chains.settlers.map(async (settler) => {
      const problems = await diagnose(settler).catch((error: unknown) => [messageOf(error)])
      return problems.map((problem) => `${settler.network}: ${problem}`)
    }),
  ])
  const missing = chains.missing.map(
    (network) => `${network}: its facilitator has not answered; not offered yet`,
  )
  return [...reports.flat(), ...missing]
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
