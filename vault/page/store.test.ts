import fc from 'fast-check'
import t from 'tap'
import type { ApprovalView } from '../approvals/approval.ts'
import { approvals } from './app/store.ts'

const view = (id: string, status = 'pending') =>
  ({ id, status, created_at: `2026-01-01T00:00:0${id}Z` }) as ApprovalView

/** Responses of the vault that arrive when the test says so; each has the state at the time of its request. */
function fakeVault() {
  let known: readonly ApprovalView[] = []
  const waiting: (() => void)[] = []
  const fetched = (async (path: string) => {
    const answer = known.filter(({ status }) => !path.includes('pending') || status === 'pending')
    await new Promise<void>((go) => waiting.push(go))
    return Response.json({ approvals: answer })
  }) as typeof fetch
  Object.assign(globalThis, { fetch: fetched, sessionStorage: { getItem: () => 'vow_x' } })
  return {
    knows: (views: readonly ApprovalView[]) => void (known = views),
    answer: () => {
      for (const go of waiting.splice(0)) go()
    },
  }
}

t.beforeEach(() => approvals.clear())

t.test('two reloads at once, as after an unlock, both end with what the vault knows', async (t) => {
  const vault = fakeVault()
  vault.knows([view('1'), view('2', 'denied')])
  const loads = [approvals.load(), approvals.load()]
  vault.answer()
  await Promise.all(loads)
  t.strictSame(
    approvals.all.map(({ id }) => id),
    ['2', '1'],
  )
})

t.test('an event that comes while a reload is under way is not lost, whichever is newer', async (t) => {
  const vault = fakeVault()
  vault.knows([view('1')])
  const load = approvals.load()
  approvals.apply(view('1', 'approved'))
  approvals.apply(view('2'))
  vault.answer()
  await load
  t.equal(approvals.get('1')?.status, 'approved')
  t.strictSame(
    approvals.waiting.map(({ id }) => id),
    ['2'],
  )
})

t.test('a state never goes back, in whatever order answers and events come', (t) => {
  const order = ['pending', 'approved', 'consumed']
  fc.assert(
    fc.property(fc.shuffledSubarray(order, { minLength: 1 }), (statuses) => {
      approvals.clear()
      for (const status of statuses) approvals.apply(view('1', status))
      const furthest = Math.max(...statuses.map((status) => order.indexOf(status)))
      return approvals.get('1')?.status === order[furthest]
    }),
  )
  t.end()
})

t.test('a reload that fails changes nothing', async (t) => {
  const vault = fakeVault()
  vault.knows([view('1')])
  const load = approvals.load()
  vault.answer()
  await load
  Object.assign(globalThis, { fetch: () => Promise.reject(new TypeError('no line')) })
  await t.rejects(approvals.load(), { code: 'UNREACHABLE' })
  t.equal(approvals.all.length, 1)
})
