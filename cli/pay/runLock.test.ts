import { join } from 'node:path'
import t from 'tap'
import { lockCommand } from './paymentFiles.ts'

t.test('of runs of one command at once, one has it; another command is free', async (t) => {
  const dir = join(t.testdir(), 'payments')
  const both = await Promise.all([lockCommand(dir, 'a'), lockCommand(dir, 'a')])
  const [taken, ...others] = both.filter((lock) => lock !== undefined)
  t.ok(taken!.isOurs())
  t.strictSame(others, [])
  const other = await lockCommand(dir, 'b')
  t.ok(other)
  taken!.release()
  const next = await lockCommand(dir, 'a')
  t.ok(next)
  t.notOk(taken!.isOurs(), 'a released lock is not held any more')
  next!.release()
  other!.release()
})
