import t from 'tap'
import { changeOf } from './views/overview.ts'

t.test(
  'a change is told in percent of what was before, and not at all without anything before',
  async (t) => {
    t.equal(changeOf(112, 100), '+12 %')
    t.equal(changeOf(97, 100), '−3 %')
    t.equal(changeOf(0, 100), '−100 %')
    t.equal(changeOf(100.2, 100), '±0 %')
    t.equal(changeOf(5, 0), undefined)
    t.equal(changeOf(5, null), undefined)
    t.equal(changeOf(5, undefined), undefined)
  },
)
