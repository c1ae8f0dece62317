// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TestUSDC} from "./TestUSDC.sol";

/// A token that does not revert on a used authorisation: the call succeeds, nothing moves and no Transfer is
/// emitted. A settler that trusts the receipt's status alone believes that it was paid. Same storage layout as
/// TestUSDC, so one can take the other's place at the same address.
contract SilentUSDC is TestUSDC {
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) public override {
        if (authorizationStates[from][nonce]) return;
        super.transferWithAuthorization(from, to, value, validAfter, validBefore, nonce, signature);
    }
}
