import { startIslands } from '../island/startIslands.ts'
import { Operator } from './operator.ts'

void startIslands({ operator: () => Operator })
