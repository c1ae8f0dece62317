import type { Link } from '../../../core/domain/link.ts'
import type { Oversight } from '../../../core/ports/store/oversight.ts'
import type { Access } from './access.ts'
import type { Tables } from './memory.ts'

/** What the operator sees of all stores, in memory. */
export function createOversight(tables: Tables, { read }: Access): Oversight {
  const { stores, links, purchases, gas, payments, deliveries } = tables
  return {
    stores: (search, after, limit) =>
      read(() =>
        stores
          .values()
          .filter(({ username }) => username > after)
          .filter((s) => s.username.includes(search) || s.displayName.toLowerCase().includes(search))
          .sort((a, b) => (a.username < b.username ? -1 : 1))
          .slice(0, limit)
          .map(({ id, username, displayName, createdAtMs }) => {
            const sales = purchases
              .values()
              .filter(({ purchase }) => purchase.storeId === id && purchase.status !== 'reorged')
              .map(({ purchase }) => purchase.createdAtMs)
            return {
              ...{ id, username, displayName, createdAtMs },
              links: links.values().filter((link) => link.storeId === id && link.isActive).length,
              lastSaleAtMs: sales.length === 0 ? null : Math.max(...sales),
            }
          }),
      ),

    suspended: (limit) =>
      read(() => {
        const rows = links
          .values()
          .flatMap(({ id, title, storeId, isActive, isStealth, slug, privateSlug, suspension }) => {
            if (!isActive || suspension === null) return []
            const { username } = stores.get(storeId)!
            return [{ linkId: id, title, username, slug: isStealth ? privateSlug! : slug, suspension }]
          })
          .sort((a, b) => b.suspension.sinceMs - a.suspension.sinceMs || (a.linkId < b.linkId ? -1 : 1))
        return { total: rows.length, rows: rows.slice(0, limit) }
      }),

    backlog: () =>
      read(() => {
        const inState = (wanted: string) => payments.values().filter(({ state }) => state === wanted).length
        const isSuspended = ({ isActive, suspension }: Link) => isActive && suspension !== null
        return {
          open: { claimed: inState('claimed'), settling: inState('settling'), pending: inState('pending') },
          refundsDue: inState('refund_due'),
          webhooksWaiting: deliveries.values().filter(({ state }) => state === 'waiting').length,
          linksSuspended: links.values().filter(isSuspended).length,
        }
      }),

    gasByDay: (network, fromDay) =>
      read(() => {
        const days = new Map<number, bigint>()
        for (const row of gas.values())
          if (row.network === network && row.day >= fromDay)
            days.set(row.day, (days.get(row.day) ?? 0n) + row.spent)
        return [...days].sort(([a], [b]) => a - b).map(([day, spent]) => ({ day, spent }))
      }),
  }
}
