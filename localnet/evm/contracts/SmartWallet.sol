// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Signatures} from "./Signatures.sol";

/// A contract account with one owner: what ERC-1271 needs and no more.
contract SmartWallet {
    address public immutable owner;

    constructor(address owner_) {
        owner = owner_;
    }

    receive() external payable {}

    /// Takes the owner's 65-byte signature, bare or wrapped as `abi.encode(uint256 ownerIndex, bytes signature)`
    /// the way larger wallets wrap theirs, so that a verifier which insists on 65 bytes is found out.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        bytes memory inner = signature;
        if (signature.length > 65) (, inner) = abi.decode(signature, (uint256, bytes));
        return Signatures.recover(hash, inner) == owner ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }

    function execute(address to, uint256 value, bytes calldata data) external returns (bytes memory) {
        require(msg.sender == owner, "SmartWallet: caller is not the owner");
        (bool ok, bytes memory answer) = to.call{value: value}(data);
        require(ok, "SmartWallet: call failed");
        return answer;
    }
}

/// Makes wallets at addresses known ahead (CREATE2), so that one can sign before it exists (ERC-6492).
contract SmartWalletFactory {
    function createAccount(address owner, uint256 salt) external returns (address wallet) {
        wallet = getAddress(owner, salt);
        if (wallet.code.length == 0) new SmartWallet{salt: bytes32(salt)}(owner);
    }

    function getAddress(address owner, uint256 salt) public view returns (address) {
        bytes32 initCodeHash = keccak256(abi.encodePacked(type(SmartWallet).creationCode, abi.encode(owner)));
        return address(
            uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), bytes32(salt), initCodeHash))))
        );
    }
}
