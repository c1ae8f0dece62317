import type { Look, SettlingReport } from '../../admin-api/deps.ts'
import { leaseNameOf } from '../../core/payments/keyLease.ts'
import type { OwnKey, Settler, SettlingKey } from '../../core/ports/chains/settler.ts'
import { keptLook } from './keptLook.ts'
import type { Stack } from './open/openStack.ts'

const DAY_MS = 86_400_000
/** As many days of gas as are kept. */
const GAS_DAYS = 7

/** How each network's settler stands, key by key. Nodes are asked now and then, and a dead one keeps nobody waiting. */
export function createSettlingReports({
  store,
  chains,
  ports: { clock },
}: Pick<Stack, 'store' | 'chains' | 'ports'>): () => Promise<readonly SettlingReport[]> {
  const looks = new WeakMap<OwnKey, () => Promise<Look<SettlingKey>>>()

  function lookAt(key: OwnKey): Promise<Look<SettlingKey>> {
    let look = looks.get(key)
    if (look === undefined) {
      const made = keptLook(
        () => key.look(),
        () => clock.now(),
      )
      looks.set(key, (look = made))
    }
    return look()
  }

  async function reportOf(
    { network, isExclusive }: Settler,
    id: string,
    key?: OwnKey,
  ): Promise<SettlingReport> {
    const today = Math.floor(clock.now() / DAY_MS)
    const [found, open, days, holder] = await Promise.all([
      key === undefined ? null : lookAt(key),
      store.books.openAttempts(id),
      store.oversight.gasByDay(network, today - GAS_DAYS + 1),
      isExclusive ? store.leases.holderOf(leaseNameOf(id)) : undefined,
    ])
    const gas = {
      today: days.filter(({ day }) => day >= today).reduce((sum, { spent }) => sum + spent, 0n),
      week: days.reduce((sum, { spent }) => sum + spent, 0n),
    }
    const lease = isExclusive ? (holder ?? 'nobody') : 'any'
    return { network, settler: id, key: found, openAttempts: open.length, gas, lease }
  }

  return () =>
    Promise.all(
      chains.settlers.flatMap((settler) =>
        settler.keys === undefined
          ? reportOf(settler, settler.id)
          : settler.keys.map((key) => reportOf(settler, key.id, key)),
      ),
    )
}
