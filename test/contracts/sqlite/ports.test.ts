import t from 'tap'
import { openTestStore } from '../../helpers/store/testStore.ts'
import { testClock } from '../samples.ts'
import { portsContract } from './ports.ts'

// In this thread; ports.slow.test.ts keeps the same with the threads of a gateway.
portsContract(t, async (t) => {
  const clock = testClock()
  const storeClock = testClock()
  const store = openTestStore({ clock, storeClock })
  t.teardown(() => store.close())
  return { ...store, clock, storeClock }
})
