import type { Look, SettlingReport } from '../../admin-api/deps.ts'
import { leaseNameOf } from '../../core/payments/keyLease.ts'
import type { Settler, SettlingKey } from '../../core/ports/settler.ts'
import { keptLook } from './keptLook.ts'
import type { Stack } from './openStack.ts'

const DAY_MS = 86_400_000
/** As many days of gas as are kept. */
const GAS_DAYS = 7

/** How each network's settler stands. Nodes are asked now and then, and a dead one keeps nobody waiting. */
export function createSettlingReports({
  store,
  chains,
  ports: { clock },
}: Pick<Stack, 'store' | 'chains' | 'ports'>): () => Promise<readonly SettlingReport[]> {
  const looks = new WeakMap<Settler, () => Promise<Look<SettlingKey>>>()

  function keyOf(settler: Settler): Promise<Look<SettlingKey>> | null {
    if (settler.key === undefined) return null
    let look = looks.get(settler)
    if (look === undefined)
      looks.set(
        settler,
        (look = keptLook(
          () => settler.key!(),
          () => clock.now(),
        )),
      )
    return look()
  }

  async function reportOf(settler: Settler): Promise<SettlingReport> {
    const { id, network, isExclusive } = settler
    const today = Math.floor(clock.now() / DAY_MS)
    const [key, open, days, holder] = await Promise.all([
      keyOf(settler),
      store.books.openAttempts(id),
      store.oversight.gasByDay(network, today - GAS_DAYS + 1),
      isExclusive ? store.leases.holderOf(leaseNameOf(id)) : undefined,
    ])
    const gas = {
      today: days.filter(({ day }) => day >= today).reduce((sum, { spent }) => sum + spent, 0n),
      week: days.reduce((sum, { spent }) => sum + spent, 0n),
    }
    const lease = isExclusive ? (holder ?? 'nobody') : 'any'
    return { network, settler: id, key, openAttempts: open.length, gas, lease }
  }

  return () => Promise.all(chains.settlers.map(reportOf))
}
