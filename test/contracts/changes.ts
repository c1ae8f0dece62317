import type { Test } from 'tap'
import type { Change, Changes } from '../../core/ports/store/changes.ts'

const change: Change = { kind: 'link', username: 'ann', slug: 'weather' }

/** What every implementation of the port Changes keeps. */
export function changesContract(t: Test, make: (t: Test) => Promise<Changes>): void {
  t.test('every listener hears of a change, until it ends its subscription', async (t) => {
    const changes = await make(t)
    const heard: string[] = []
    const listener = (name: string) => (change: Change) => heard.push(`${name} ${change.username}`)
    const end = changes.subscribe(listener('a'))
    changes.subscribe(listener('b'))
    changes.publish(change)
    t.strictSame(heard, ['a ann', 'b ann'])
    end()
    end()
    changes.publish({ kind: 'store', username: 'ben' })
    t.strictSame(heard, ['a ann', 'b ann', 'b ben'])
  })

  t.test('a listener that fails keeps the news from nobody', async (t) => {
    const changes = await make(t)
    const heard: Change[] = []
    changes.subscribe(() => {
      throw new Error('out of order')
    })
    changes.subscribe((change) => heard.push(change))
    t.throws(() => changes.publish(change), AggregateError)
    t.strictSame(heard, [change])
  })

  t.test('after close nobody is told', async (t) => {
    const changes = await make(t)
    const heard: Change[] = []
    changes.subscribe((change) => heard.push(change))
    await changes.close()
    changes.publish(change)
    t.strictSame(heard, [])
  })
}
