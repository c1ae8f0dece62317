import t from 'tap'
import { reasons } from '../reasons.ts'
import { refusalOf } from './simulation.ts'

t.test(
  'every error of a simulation becomes a refusal that says what to do, and whose fault it is',
  async (t) => {
    const custom = (code: number, instruction = 2) => ({ InstructionError: [instruction, { Custom: code }] })
    for (const [err, expected] of [
      ['BlockhashNotFound', { reason: reasons.blockhashExpired, message: /Sign a new payment/ }],
      ['AlreadyProcessed', { reason: reasons.duplicate, message: /before you pay again/ }],
      ['AccountNotFound', { transient: true }],
      ['InsufficientFundsForFee', { transient: true }],
      ['InvalidAccountForFee', { transient: true }],
      [{ InsufficientFundsForRent: { account_index: 0 } }, { transient: true }],
      [custom(1), { reason: reasons.insufficientFunds }],
      [{ InstructionError: [2, 'InsufficientFunds'] }, { reason: reasons.insufficientFunds }],
      [custom(4), { reason: reasons.simulationFailed, message: /may not move/ }],
      [custom(17), { reason: reasons.simulationFailed, message: /frozen/ }],
      [
        { InstructionError: [2, 'InvalidAccountData'] },
        { reason: reasons.simulationFailed, message: /token account/ },
      ],
      [custom(1, 3), { reason: reasons.simulationFailed, message: /"Custom":1/ }],
      [{ InstructionError: [0, 'ComputationalBudgetExceeded'] }, { reason: reasons.simulationFailed }],
      ['SomethingNew', { reason: reasons.simulationFailed, message: /SomethingNew/ }],
      [{}, { reason: reasons.simulationFailed }],
      [7, { reason: reasons.simulationFailed }],
      ['x'.repeat(5_000), { message: /^.{1,300}$/ }],
    ] as const) {
      const refusal = refusalOf(err, 2, false)
      t.match(refusal, { ok: false, ...expected }, JSON.stringify(err).slice(0, 80))
      t.equal(refusal.transient ?? false, 'transient' in expected)
    }
  },
)
